"""The rules that committed metadata must keep, C7, C12 to C15, C18, C19 and L22."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from hashlib import blake2b
from typing import Final
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import (
    RECOVERED,
    MetadataRecord,
)
from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.ids import DIRECTORY_UNASSIGNED, NO_LEADER, TopicPartition
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
)
from tidelog.quorum.quorum import Quorum
from tidelog.simulator.rules.broker_rules import BrokerRules
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.proposal_rules import ProposalRules
from tidelog.simulator.rules.replica_rules import MIN_IN_SYNC, TOPIC
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.happenings import Started, Stepped
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World

COMPARED_EVERY: Final = 4
"""Of so many metadata offsets the state is compared at one."""
UNCLEAN: Final = "unclean.leader.election.enable"


class MetadataRules:
    """Looks at the controller's image when it has moved on."""

    def __init__(
        self,
        world: World,
        ghost: Ghost,
        proposals: ProposalRules,
        changed: Callable[[PartitionGhost], None],
    ) -> None:
        self._world = world
        self._ghost = ghost
        self._proposals = proposals
        self._changed = changed
        self._brokers = BrokerRules(world)
        self._settings = {MIN_IN_SYNC: "1", **dict(world.plan.settings)}
        self._states: dict[int, bytes] = {}
        """What the metadata below an offset makes, as the first node had it."""
        self._compared: dict[int, int] = {}
        self._is_disturbed = False

    def disturbed(self) -> None:
        """A fault struck, or a process ended: from now on members may leave."""
        self._is_disturbed = True

    def died(self, machine: Machine) -> None:
        """The process of a machine is over."""
        self._brokers.died(machine)

    def look_at(self, machine: Machine, happening: Started | Stepped) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        image = node.cluster.image
        if image.end_offset != self._compared.get(machine.node_id) and not image.in_transaction:
            self._compared[machine.node_id] = image.end_offset
            if image.end_offset % COMPARED_EVERY == 0:
                self._judge_same(machine, image)
        if not node.cluster.config.is_controller:
            return
        self._brokers.hear(machine, happening)
        active_since_ms = self._brokers.active_since(machine)
        if image.end_offset <= self._ghost.image_end or image.in_transaction:
            return
        end_before = self._ghost.image_end
        moved = partial(_moved, node.quorum, max(0, end_before))
        self._ghost.image, self._ghost.image_end = image, image.end_offset
        self._brokers.judge(machine, image, active_since_ms, end_before)
        for topic in image.topics_by_name.values():
            for index, partition in topic.partitions.items():
                ghost = self._ghost.partition(topic.topic_id, TopicPartition(topic.name, index))
                before = ghost.control
                if partition is before or partition == before:
                    continue
                ghost.take_control(partition)
                if before is not None:
                    self._judge_change(ghost, before, partition)
                    self._proposals.judge_commit(ghost, before, partition, moved)
                self._judge_state(ghost, image, partition)
                self._changed(ghost)

    def _judge_same(self, machine: Machine, image: ClusterImage) -> None:
        """C7: the same records make the same state, on every node and after every restart."""
        state = blake2b(digest_size=16)
        for record in image.snapshot_records():
            state.update(repr(record).encode())
        known = self._states.setdefault(image.end_offset, state.digest())
        if known != state.digest():
            why = f"the metadata below {image.end_offset} as something else than others"
            raise Violation("C7", f"{machine.name} has {why}")

    def _judge_change(
        self, ghost: PartitionGhost, before: PartitionImage, after: PartitionImage
    ) -> None:
        what = f"{ghost.name} went from {_words(before)} to {_words(after)}"
        if (
            after.leader_epoch < before.leader_epoch
            or after.partition_epoch <= before.partition_epoch
        ):
            raise Violation("C13", what)
        if after.leader != before.leader and after.leader_epoch == before.leader_epoch:
            raise Violation("C13", what)
        left = set(before.isr) - set(after.isr)
        if not self._is_disturbed and left & set(after.replicas):
            raise Violation("L22", f"{what}, and nothing was wrong")
        is_one_step = after.partition_epoch == before.partition_epoch + 1
        if is_one_step:
            _judge_reassignment(before, after, self._least(ghost), what)
        gone = set(before.replicas) - set(after.replicas)
        ghost.sent_away.update(dict.fromkeys(gone, after.partition_epoch))
        is_new_leader = after.leader not in (NO_LEADER, before.leader)
        if after.recovery_state != RECOVERED:
            elected = _elected_unclean(after)
            if is_new_leader or elected != _elected_unclean(before):
                self._judge_unclean(ghost, elected, what)
        elif is_new_leader and is_one_step:
            _judge_election(before, after, what)

    def _judge_unclean(self, ghost: PartitionGhost, leader: int, what: str) -> None:
        """Who led last and never lost anything may lead again; more only where a topic allows it.

        Machines lose data only while others are in sync, so the last one that was has everything.
        """
        if self._configs(ghost).get(UNCLEAN) == "true" or self._world.machines[leader].damaged:
            ghost.elect_unclean(leader)
        elif (held := ghost.agreement(leader)) < ghost.true_high_watermark and not ghost.is_murky:
            lacks = f"lacks committed records from {held} to {ghost.true_high_watermark}"
            raise Violation("D1", f"{what}, and {leader} {lacks}")

    def _least(self, ghost: PartitionGhost) -> int:
        return int(self._configs(ghost).get(MIN_IN_SYNC, self._settings[MIN_IN_SYNC]))

    def _configs(self, ghost: PartitionGhost) -> Mapping[str, str]:
        image = self._ghost.image
        return {} if image is None else image.configs.get((TOPIC, ghost.name.topic), {})

    def _judge_state(
        self, ghost: PartitionGhost, image: ClusterImage, partition: PartitionImage
    ) -> None:
        what = f"{ghost.name} is {_words(partition)}"
        isr = set(partition.isr)
        if not isr <= set(partition.replicas) or len(isr) != len(partition.isr):
            raise Violation("C14", f"{what} of replicas {partition.replicas}")
        if partition.leader != NO_LEADER and partition.leader not in isr:
            raise Violation("C14", what)
        is_enough = len(isr) >= min(self._least(ghost), len(partition.replicas))
        if isr & set(partition.elr) or (is_enough and partition.elr):
            raise Violation("C14", what)
        for member in isr:
            registration = image.brokers.get(member)
            if registration is None or registration.fenced:
                if len(isr) == 1 and partition.leader == NO_LEADER:
                    continue  # the last one stays, and nobody leads
                raise Violation("C14", f"{what}, and {member} is fenced")
            if not _has_directory(registration, partition.directory_of(member)):
                if len(isr) == 1 and partition.leader == NO_LEADER:
                    continue
                raise Violation("C14", f"{what}, and the directory of {member} is offline")
        if partition.recovery_state != RECOVERED and len(isr) > 1:
            raise Violation("C15", f"{what} while it recovers")


def _moved(quorum: Quorum[MetadataRecord], since: int) -> set[int] | None:
    """The brokers of which the records from there on say something; None if they are gone."""
    if since < quorum.log.start_offset:
        return None
    kinds = RegisterBrokerRecord | BrokerRegistrationChangeRecord
    return {
        each.record.broker_id
        for each in quorum.replica.committed_since(since)
        if isinstance(each.record, kinds)
    }


def _has_directory(registration: BrokerRegistration, directory_id: UUID) -> bool:
    """Whether the broker has not reported that directory as failed, or come back without it."""
    return directory_id == DIRECTORY_UNASSIGNED or directory_id in registration.log_dirs


def _elected_unclean(partition: PartitionImage) -> int:
    """Who was: who leads or, if that has ended in the same look, who alone may lead next."""
    if partition.recovery_state == RECOVERED:
        return NO_LEADER
    candidates = partition.isr or partition.elr or partition.last_known_elr
    return candidates[0] if partition.leader == NO_LEADER else partition.leader


def _judge_election(before: PartitionImage, after: PartitionImage, what: str) -> None:
    """Whoever leads now was in sync, or eligible when nobody else was left.

    The end of a reassignment is a proposal that brings the last newcomer in and an election.
    """
    if after.leader in before.isr or (_is_end(before, after) and after.leader in after.isr):
        return
    if after.leader not in before.elr or after.isr != (after.leader,):
        is_preferred = after.leader == after.replicas[0] and before.leader != NO_LEADER
        raise Violation("C19" if is_preferred else "C15", what)


def _judge_reassignment(
    before: PartitionImage, after: PartitionImage, least: int, what: str
) -> None:
    """C18: it announces who is to come, puts nobody in sync, and ends only with all, and enough,
    in sync.
    """
    if set(after.adding) - set(before.adding) and set(after.isr) - set(before.isr):
        raise Violation("C18", f"{what} with {list(after.adding)} to come")
    unannounced = set(after.replicas) - {*before.replicas, *after.adding}
    if unannounced:
        raise Violation("C18", f"{what}, and {sorted(unannounced)} became replicas in one step")
    target = set(before.replicas) - set(before.removing)
    if _is_end(before, after) and set(after.replicas) == target:
        is_enough = len(after.isr) >= min(least, len(target))
        if not is_enough or not set(before.adding) <= set(after.isr):
            raise Violation("C18", f"{what}, and the reassignment to {sorted(target)} is over")


def _is_end(before: PartitionImage, after: PartitionImage) -> bool:
    """Whether a reassignment was under way and is no more."""
    return bool(before.adding or before.removing) and not (after.adding or after.removing)


def _words(partition: PartitionImage) -> str:
    recovering = "" if partition.recovery_state == RECOVERED else "recovering, "
    return (
        f"{recovering}leader {partition.leader} in epoch {partition.leader_epoch}/"
        f"{partition.partition_epoch}, "
        f"in sync {list(partition.isr)}, eligible {list(partition.elr)}"
    )
