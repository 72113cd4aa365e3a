"""One partition on its way to a target: who is then eligible, who leads, what the record says.

Invariant  A leader is an acceptable member of the ISR, or of the ELR when the ISR is empty; any
           other only by an unclean election, which leaves the leader alone in the ISR and marks
           the partition as recovering (C15).
Invariant  The ELR holds replicas outside of the ISR only, and none when the ISR has its minimum
           size (C14).
Invariant  Without the ELR feature the last member stays in the ISR, with no leader.
Invariant  The leader epoch rises with every new leader, and whenever a replica is dropped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import (
    LEADER_UNCHANGED,
    RECOVERING,
    RECOVERY_STATE_UNCHANGED,
)
from tidelog.model.ids import NO_LEADER
from tidelog.protocol.message import replace as replace_fields
from tidelog.protocol.stored.metadata import PartitionChangeRecord


class Election(Enum):
    """How far an election may go."""

    ONLINE = "only replicas that hold everything committed"
    PREFERRED = "such replicas, and the first of the assignment even if another leads"
    UNCLEAN = "any live replica rather than none"


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What an election in one topic has to respect."""

    min_isr: int
    """From this size on an ISR forgets eligible replicas: never more than partition 0 has."""
    minimum: int
    """min.insync.replicas as it is set."""
    elr: bool
    unclean: bool

    @property
    def election(self) -> Election:
        """What an election may do that nobody asked for."""
        return Election.UNCLEAN if self.unclean else Election.ONLINE


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionTarget:
    """What a partition shall become, but for its leader and its ELR, which follow from it."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]
    recovery_state: int

    @classmethod
    def of(cls, partition: PartitionImage) -> PartitionTarget:
        """The partition as it is."""
        return cls(
            replicas=partition.replicas,
            isr=partition.isr,
            adding=partition.adding,
            removing=partition.removing,
            recovery_state=partition.recovery_state,
        )

    def with_isr(self, isr: tuple[int, ...]) -> PartitionTarget:
        return replace(self, isr=isr)

    def completed(self, minimum: int) -> PartitionTarget:
        """The end of the reassignment, if those who come are in sync; else the target itself."""
        if not self.adding and not self.removing:
            return self
        replicas = _without(self.replicas, self.removing)
        isr = _without(self.isr, self.removing)
        done = (
            len(isr) >= max(1, min(minimum, len(replicas)))
            and set(self.adding) <= set(isr)
            # Where more go than come, those who stay must be able to replace them.
            and (len(self.adding) >= len(self.removing) or set(replicas) <= set(isr))
        )
        return replace(self, replicas=replicas, isr=isr, adding=(), removing=()) if done else self


class ElectionResult(NamedTuple):
    """Who is to lead, and how it came to that."""

    leader: int
    how: str
    unclean: bool = False


class PartitionChange(NamedTuple):
    """A record that changes a partition, and the election behind it."""

    record: PartitionChangeRecord
    choice: ElectionResult


def changed(
    partition: PartitionImage,
    unchanged: PartitionChangeRecord,
    target: PartitionTarget,
    *,
    rules: ElectionRules,
    election: Election,
    may_lead: Callable[[int], bool],
    directory_for: Callable[[int], UUID],
    lost: int = NO_LEADER,
    hard_to_reach: Collection[int] = (),
) -> PartitionChange | None:
    """What has to be written to reach the target; None when nothing has to.

    `directory_for` places new replicas; `lost` is one whose data can no longer be relied upon;
    those who are `hard_to_reach` lead only if nobody else can.
    """
    target = target.completed(rules.minimum)
    elr = _eligible(partition, target, rules, lost)
    choice = _elect(partition, target, elr, rules, election, may_lead, hard_to_reach)
    isr, recovery_state, leader = target.isr, target.recovery_state, LEADER_UNCHANGED
    if choice.leader != partition.leader:
        leader = choice.leader
        if leader in elr:
            isr = (leader,)
            # A leader that may commit alone leaves the other eligible ones behind.
            elr = () if rules.min_isr <= 1 else _without(elr, isr)
        elif choice.unclean:
            isr, elr, recovery_state = (leader,), (), RECOVERING
    elif not set(partition.replicas) <= set(target.replicas):
        leader = partition.leader
    if not isr and not rules.elr:
        isr = partition.isr
    last_known = _last_known_leader(partition, leader, rules)
    directories = tuple(
        partition.directory_of(replica) if replica in partition.replicas else directory_for(replica)
        for replica in target.replicas
    )
    record = replace_fields(
        unchanged,
        leader=leader,
        isr=_if_new(isr, partition.isr),
        replicas=_if_new(target.replicas, partition.replicas),
        removing_replicas=_if_new(target.removing, partition.removing),
        adding_replicas=_if_new(target.adding, partition.adding),
        leader_recovery_state=RECOVERY_STATE_UNCHANGED
        if recovery_state == partition.recovery_state
        else recovery_state,
        directories=None if directories == partition.directories else directories,
        eligible_leader_replicas=_if_new(elr, partition.elr),
        last_known_elr=_if_new(last_known, partition.last_known_elr),
    )
    return None if record == unchanged else PartitionChange(record, choice)


def _without(members: tuple[int, ...], gone: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(member for member in members if member not in gone)


def _if_new(after: tuple[int, ...], before: tuple[int, ...]) -> tuple[int, ...] | None:
    return None if after == before else after


def _eligible(
    partition: PartitionImage, target: PartitionTarget, rules: ElectionRules, lost: int
) -> tuple[int, ...]:
    """Replicas outside the ISR that still hold everything committed."""
    if not rules.elr or len(target.isr) >= rules.min_isr:
        return ()
    complete = {*partition.elr, *partition.isr} - {*target.isr, lost}
    # Who is no longer a replica does not keep up; should it be added again, it starts anew.
    return tuple(sorted(complete & set(target.replicas)))


def _elect(
    partition: PartitionImage,
    target: PartitionTarget,
    elr: tuple[int, ...],
    rules: ElectionRules,
    election: Election,
    may_lead: Callable[[int], bool],
    hard_to_reach: Collection[int],
) -> ElectionResult:
    complete = target.isr or elr
    preferred = target.replicas[0]
    if election is Election.PREFERRED and preferred in complete and may_lead(preferred):
        return ElectionResult(preferred, f"{preferred} is its preferred leader")
    if partition.leader in complete and may_lead(partition.leader):
        return ElectionResult(
            partition.leader, f"{partition.leader} goes on leading in a new epoch"
        )
    candidates = [each for each in target.replicas if each in complete and may_lead(each)]
    if candidates:
        chosen = min(candidates, key=lambda replica: replica in hard_to_reach)
        how = f"{chosen} is the first live {'in-sync' if target.isr else 'eligible'} replica"
        if chosen != candidates[0]:
            how += f" but for {candidates[0]}, which has just come back"
        return ElectionResult(chosen, how)
    last_known = partition.last_known_elr
    if rules.elr and not complete and len(last_known) == 1 and may_lead(last_known[0]):
        how = f"{last_known[0]} led last, and nobody is in sync or eligible"
        return ElectionResult(last_known[0], how, unclean=True)
    if election is Election.UNCLEAN:
        # Replicas that are still being added hold the least.
        for replica in sorted(target.replicas, key=lambda replica: replica in target.adding):
            if may_lead(replica):
                how = f"{replica} is the first live replica, elected uncleanly"
                return ElectionResult(replica, how, unclean=True)
    return ElectionResult(NO_LEADER, "nobody can lead it")


def _last_known_leader(
    partition: PartitionImage, leader: int, rules: ElectionRules
) -> tuple[int, ...]:
    """Who led when the partition became leaderless, until it has a leader again."""
    known = partition.last_known_elr
    if not rules.elr or leader == LEADER_UNCHANGED:
        return known
    if leader != NO_LEADER:
        return ()
    return (partition.leader,) if partition.has_leader and not known else known
