"""The rules of the data plane, D1 to D21, judged after every step of a node.

Invariant  A replica is looked at only when something about it changed, so that a step costs what
           it did.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from tidelog.model.ids import NO_LEADER
from tidelog.node.node import Node
from tidelog.records.batch import read_header
from tidelog.replication.messages import LeaderAndIsr
from tidelog.replication.partition import Partition
from tidelog.simulator.rules.compacted_rules import judge_kept, judge_thinned, judge_thinned_epochs
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldBatch, HeldLog
from tidelog.simulator.rules.storage_rules import judge_end
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.machine import Machine
from tidelog.simulator.world.world import World
from tidelog.storage.partition_log import PartitionLog

SEQUENCES: Final = 1 << 31
TOPIC: Final = 2
"""The kind of resource that a topic's configuration belongs to."""
MIN_IN_SYNC: Final = "min.insync.replicas"


@dataclass(slots=True)
class _Seen:
    """A replica as it was at the last look."""

    log: PartitionLog
    end: int
    start: int
    high_watermark: int
    leadership: LeaderAndIsr
    epochs: object
    first_dirty: int

    def is_still(self, partition: Partition) -> bool:
        log = partition.log
        return (
            partition.high_watermark.offset == self.high_watermark
            and log.start_offset == self.start
            and partition.leadership is self.leadership
            and log.epochs.entries is self.epochs
            and self.has_same_log(log)
        )

    def has_same_log(self, log: PartitionLog) -> bool:
        return (
            log is self.log
            and log.end_offset == self.end
            and log.first_dirty_offset == self.first_dirty
        )


class ReplicaRules:
    """Looks at the replicas of the node that took a step."""

    def __init__(self, world: World, ghost: Ghost) -> None:
        self._world = world
        self._ghost = ghost
        self._seen: dict[tuple[int, int, object], _Seen] = {}

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        for partition in node.replicas:
            key = (machine.node_id, partition.name.partition, partition.log.topic_id)
            seen = self._seen.get(key)
            if seen is None or not seen.is_still(partition):
                self._look(machine, node, partition, seen)
                log = partition.log
                self._seen[key] = _Seen(
                    log,
                    log.end_offset,
                    log.start_offset,
                    partition.high_watermark.offset,
                    partition.leadership,
                    log.epochs.entries,
                    log.first_dirty_offset,
                )

    def control_changed(self, ghost: PartitionGhost) -> None:
        """The metadata has another leader or other members: they must hold everything."""
        self._judge_members(ghost)

    # One replica.

    def _look(self, machine: Machine, node: Node, partition: Partition, seen: _Seen | None) -> None:
        ghost = self._ghost.partition(partition.log.topic_id, partition.name)
        if seen is None or seen.log is not partition.log:
            ghost.has_other_log(machine.node_id, partition.leadership.partition_epoch)
        held = ghost.held.get(machine.node_id)
        if held is None:
            held = ghost.held[machine.node_id] = HeldLog(machine.node_id, partition.name)
        _judge_bounds(machine, partition)
        _judge_fetcher(machine, node, partition)
        if seen is not None:
            _judge_mark(machine, partition, seen)
        ghost.is_compacted = partition.log.config.cleanup_compact
        if seen is None or not seen.has_same_log(partition.log):
            self._judge_log(machine, partition, ghost, held)
        else:
            held.start_offset = partition.log.start_offset
        if held.unreadable or machine.damaged:
            ghost.is_murky = ghost.is_murky or partition.is_leader
            return
        judge_end(machine, ghost, held, partition.log)
        if partition.log.health.offline_reason is None:  # else nobody is given anything any more
            judge = judge_thinned_epochs if ghost.is_compacted else _judge_epochs
            judge(machine, partition, held)
        self._commit(machine, partition, ghost, held)
        if partition.is_leader:
            self._judge_leader(machine, partition, ghost)
        self._judge_members(ghost)

    def _judge_log(
        self, machine: Machine, partition: Partition, ghost: PartitionGhost, held: HeldLog
    ) -> None:
        agreed = min(ghost.agreement(machine.node_id), ghost.true_high_watermark)
        changed = held.look(partition.log, machine.disk.files, damaged=machine.damaged)
        is_excused = machine.lossy or machine.damaged or held.unreadable
        if changed.cut_to is not None:
            ghost.was_cut(machine.node_id, changed.cut_to)
            if changed.cut_to < agreed and not is_excused and not ghost.is_compacted:
                kept = max(partition.log.start_offset, changed.cut_to)
                if kept < agreed:
                    raise Violation(
                        "D16",
                        f"{machine.name} cut {held.name} to {changed.cut_to}, and everything "
                        f"below {agreed} was committed",
                    )
        if not is_excused:
            before = held.batch_before(changed.added)
            if ghost.is_compacted:
                judge_thinned(ghost, held, before, changed.added)
                if changed.is_thinned:
                    judge_kept(machine, ghost, agreed)
                return
            _judge_added(held, before, changed.added)
            _judge_written(ghost, held, before, changed.added)

    # The high watermark.

    def _commit(
        self, machine: Machine, partition: Partition, ghost: PartitionGhost, held: HeldLog
    ) -> None:
        """Everything below this replica's high watermark is committed; it must be what others had
        there."""
        if ghost.is_unclean and not _leads_now(partition, ghost):
            return
        high_watermark = partition.high_watermark.offset
        if high_watermark <= ghost.true_high_watermark:
            if ghost.agreement(machine.node_id) < high_watermark and not machine.lossy:
                self._differs(machine, ghost, held, high_watermark)
            return
        if ghost.agreement(machine.node_id) < ghost.true_high_watermark:
            self._differs(machine, ghost, held, high_watermark)
        for batch in held.batches[_first_from(held, ghost.true_high_watermark) :]:
            if batch.next_offset > high_watermark:
                break
            if batch.base_offset != ghost.true_high_watermark and not ghost.is_deleted_below(held):
                raise Violation("D17", f"{held.name} has a gap at {ghost.true_high_watermark}")
            ghost.commit(batch)
            _judge_sequence(ghost, batch)
        if ghost.true_high_watermark < high_watermark:
            what = f"the high watermark of {held.name} on {machine.name} is {high_watermark}"
            raise Violation("D5", f"{what}, inside a batch or behind its end {held.end_offset}")
        if partition.leading is not None:
            self._judge_advance(machine, partition, ghost)

    def _differs(
        self, machine: Machine, ghost: PartitionGhost, held: HeldLog, high_watermark: int
    ) -> None:
        raise Violation(
            "D3",
            f"{machine.name} has the high watermark of {held.name} at {high_watermark}, but holds "
            f"what was committed only below {ghost.agreement(machine.node_id)}",
        )

    def _judge_advance(self, machine: Machine, partition: Partition, ghost: PartitionGhost) -> None:
        """D6: who could lead next holds everything below the high watermark, and enough replicas
        do."""
        leader = partition.leading
        if leader is None or ghost.control is None:
            return
        known = partition.leadership.partition_epoch
        members = {*leader.in_sync.maximal, *ghost.members_in(leader.epoch, known)}
        holders = 0
        for node_id in partition.leadership.replicas:
            member = self._world.machines[node_id]
            holds = ghost.agreement(node_id) >= ghost.true_high_watermark
            excused = member.lossy or member.damaged
            holders += holds or excused
            if node_id in members and not holds and not excused:
                raise Violation(
                    "D6",
                    f"leader {machine.name} committed {ghost.name} up to "
                    f"{ghost.true_high_watermark}, but in-sync replica {node_id} holds it only "
                    f"below {ghost.agreement(node_id)}",
                )
        wanted = min(_least(machine, partition), len(partition.leadership.replicas))
        if holders < wanted:
            raise Violation(
                "D6",
                f"leader {machine.name} committed {ghost.name} up to "
                f"{ghost.true_high_watermark} with {holders} of {wanted} replicas",
            )

    # Those who lead or could.

    def _judge_leader(self, machine: Machine, partition: Partition, ghost: PartitionGhost) -> None:
        if not _leads_now(partition, ghost):
            return
        if ghost.agreement(machine.node_id) < ghost.true_high_watermark:
            raise Violation(
                "D1",
                f"{machine.name} leads {ghost.name} in epoch {partition.leader_epoch} and lacks "
                f"committed records from {ghost.agreement(machine.node_id)} on; "
                f"below {ghost.true_high_watermark} all was committed",
            )

    def _judge_members(self, ghost: PartitionGhost) -> None:
        control = ghost.control
        if control is None:
            return
        for node_id in (*control.isr, *control.elr):
            machine = self._world.machines.get(node_id)
            if machine is None or machine.process is None or machine.damaged:
                continue
            if machine.lossy and not self._is_registered(machine):
                continue
            held = ghost.held.get(node_id)
            if held is not None and held.unreadable:
                continue
            if ghost.agreement(node_id) < ghost.true_high_watermark:
                raise Violation(
                    "D2",
                    f"{node_id} may lead {ghost.name} next but holds what is committed only below "
                    f"{ghost.agreement(node_id)}, not {ghost.true_high_watermark}",
                )

    def _is_registered(self, machine: Machine) -> bool:
        """Whether the metadata knows of the process that runs there now."""
        image, node = self._ghost.image, machine.node
        if image is None or node is None:
            return False
        registration = image.brokers.get(machine.node_id)
        return registration is not None and registration.broker_epoch == node.cluster.broker_epoch


def _least(machine: Machine, partition: Partition) -> int:
    """How many replicas make a record safe, by the metadata that the leader has applied."""
    node = machine.node
    configs = {} if node is None else node.cluster.image.configs
    of_topic = configs.get((TOPIC, partition.name.topic), {})
    given = of_topic.get(MIN_IN_SYNC, dict(machine.world.plan.settings).get(MIN_IN_SYNC, "1"))
    return int(given)


def _leads_now(partition: Partition, ghost: PartitionGhost) -> bool:
    """Whether this replica leads in the newest epoch there is."""
    control = ghost.control
    return (
        partition.is_leader
        and control is not None
        and control.leader_epoch == partition.leader_epoch
    )


def _first_from(held: HeldLog, offset: int) -> int:
    index = len(held.batches)
    while index and held.batches[index - 1].base_offset >= offset:
        index -= 1
    return index


def _judge_bounds(machine: Machine, partition: Partition) -> None:
    log, high_watermark = partition.log, partition.high_watermark.offset
    bounds = (log.start_offset, partition.last_stable_offset, high_watermark, log.end_offset)
    if any(low > high for low, high in pairwise(bounds)):
        what = "start {}, last stable offset {}, high watermark {}, end {}".format(*bounds)
        raise Violation("D5", f"{partition.name} on {machine.name}: {what}")


def _judge_fetcher(machine: Machine, node: Node, partition: Partition) -> None:
    if partition.log.health.offline_reason is not None:
        return  # until the end of the tick it may still fetch, and never again
    target = node.rooms.replicas.fetchers.leader_of(partition.name)
    wanted = NO_LEADER
    if partition.following is not None:
        wanted = partition.leadership.leader
    if target != wanted:
        raise Violation(
            "D21",
            f"{machine.name} fetches {partition.name} from {target}, and in epoch "
            f"{partition.leader_epoch} should from {wanted}",
        )


def _judge_mark(machine: Machine, partition: Partition, seen: _Seen) -> None:
    if (
        partition.is_leader
        and seen.log is partition.log
        and seen.leadership.leader_epoch == partition.leader_epoch
        and partition.high_watermark.offset < seen.high_watermark
    ):
        raise Violation(
            "D7",
            f"{machine.name} lowered the high watermark of {partition.name} from "
            f"{seen.high_watermark} to {partition.high_watermark.offset} in epoch "
            f"{partition.leader_epoch}",
        )


def _judge_added(held: HeldLog, before: HeldBatch | None, added: Sequence[HeldBatch]) -> None:
    last = before
    for batch in added:
        if last is not None and batch.base_offset != last.next_offset:
            why = f"{batch.base_offset} follows {last.next_offset}"
            raise Violation("D17", f"{held.node_id} has a hole in {held.name}: {why}")
        if last is not None and batch.epoch < last.epoch:
            why = f"epoch {batch.epoch} at {batch.base_offset} follows epoch {last.epoch}"
            raise Violation("D17", f"{held.name} on {held.node_id}: {why}")
        last = batch


def _judge_written(
    ghost: PartitionGhost, held: HeldLog, before: HeldBatch | None, added: Sequence[HeldBatch]
) -> None:
    """D4: the same epoch at the same offset is the same batch, with the same one before it."""
    last = before
    for batch in added:
        previous = None if last is None else last.key
        known = ghost.written.get(batch.key)
        if known is None:
            ghost.written[batch.key] = (batch.data, previous)
        else:
            data, known_previous = known
            if data != batch.data:
                raise Violation(
                    "D4",
                    f"{held.node_id} holds another batch of epoch {batch.epoch} at "
                    f"{batch.base_offset} of {held.name} than others",
                )
            if known_previous is None:
                ghost.written[batch.key] = (data, previous)
            elif previous is not None and previous != known_previous:
                raise Violation(
                    "D4",
                    f"{held.node_id} holds epoch {previous[0]} before {batch.base_offset} of "
                    f"{held.name}, others hold epoch {known_previous[0]}",
                )
        last = batch


def _judge_epochs(machine: Machine, partition: Partition, held: HeldLog) -> None:
    """D18: the epoch cache is what the log says, and perhaps an epoch that begins at its end.

    A leader's own epoch is always there: whoever asks where an earlier one ends needs it.
    """
    log = partition.log
    if partition.is_leader and log.epochs.latest_epoch != partition.leader_epoch:
        why = f"in epoch {partition.leader_epoch}, its epochs end with {log.epochs.latest_epoch}"
        raise Violation("D18", f"{machine.name} leads {partition.name} {why}")
    entries = [tuple(entry) for entry in log.epochs.entries]
    starts = held.epoch_starts
    ends = [start for _, start in starts[1:]] + [log.end_offset]
    wanted = [start for start, end in zip(starts, ends, strict=False) if end > log.start_offset]
    if entries and (not wanted or entries[-1][0] > wanted[-1][0]):
        epoch, start = entries.pop()
        if start != log.end_offset or epoch > partition.leader_epoch:
            why = f"epoch {epoch} at {start} of {partition.name}, which ends at {log.end_offset}"
            raise Violation("D18", f"{machine.name} knows of {why}")
    if (
        [epoch for epoch, _ in entries] != [epoch for epoch, _ in wanted]
        or any(entry != want for entry, want in zip(entries[1:], wanted[1:], strict=True))
        or (entries and entries[0][1] > max(log.start_offset, wanted[0][1]))
    ):
        why = f"{entries}, its log tells {wanted}"
        raise Violation("D18", f"{machine.name} has the epochs of {partition.name} as {why}")


def _judge_sequence(ghost: PartitionGhost, batch: HeldBatch) -> None:
    """D19: what one producer wrote stands there once and without a gap."""
    header = read_header(batch.data)
    if header.producer_id < 0 or header.base_sequence < 0:  # coordinators do not number theirs
        return
    key = (header.producer_id, header.producer_epoch)
    last = ghost.sequences.get(key)
    if last is None and ghost.forgiven:  # the new leader has forgotten the producer
        last = header.base_sequence - 1
    expected = 0 if last is None else (last + 1) % SEQUENCES
    if header.base_sequence != expected:
        raise Violation(
            "D19",
            f"{ghost.name} has sequence {header.base_sequence} of producer {key[0]} at "
            f"{batch.base_offset}, and {expected} was to follow",
        )
    ghost.sequences[key] = header.last_sequence
