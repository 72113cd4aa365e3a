"""What a machine's disk and the logs on it must keep, S1, S4 and S5, and D22.

Invariant  What counts as flushed is read from the disk itself, not from what a node believes.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import DiskError
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.simulator.rules.ghost import Ghost, PartitionGhost
from tidelog.simulator.rules.held_log import HeldLog
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.machine import Machine
from tidelog.storage.partition_log import PartitionLog


@dataclass(slots=True)
class _Condemned:
    """A log that the disk refused something, and where it ended then."""

    log: PartitionLog
    end_offset: int


class StorageRules:
    """Looks at the logs of a node before a loss of power, at its start and after its steps."""

    def __init__(self, ghost: Ghost) -> None:
        self._ghost = ghost
        self._flushed: dict[int, dict[tuple[object, int], int]] = {}
        self._condemned: dict[tuple[int, object, int], _Condemned] = {}

    def power_goes(self, machine: Machine) -> None:
        """Note how far each log was flushed: that much must be there afterwards.

        What a log that was not loaded since the last loss happens to hold was flushed by nobody.
        """
        if machine.disk.failed or machine.damaged:
            self._flushed.pop(machine.node_id, None)
            return
        not_loaded = self._flushed.get(machine.node_id, {})
        flushed = {
            key: flushed_end(held, machine.disk.files)
            for key, ghost in self._ghost.partitions.items()
            if (held := ghost.held.get(machine.node_id)) is not None
            and machine.node_id not in ghost.sent_away
        }
        self._flushed[machine.node_id] = flushed | not_loaded

    def forget(self, node_id: int) -> None:
        """Its disk is another one now."""
        self._flushed.pop(node_id, None)

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        flushed = self._flushed.get(machine.node_id)
        for partition in node.replicas:
            log, index = partition.log, partition.name.partition
            if flushed:
                self._judge_loaded(machine, log, flushed.pop((log.topic_id, index), 0))
            if log.directory in machine.disk.refusing:
                self._judge_condemned(machine, log, index)
            topic = node.cluster.image.topics_by_name.get(partition.name.topic)
            if topic is not None and topic.topic_id != log.topic_id:
                why = f"serves {partition.name} from the log of topic {log.topic_id}"
                raise Violation("D22", f"{machine.name} {why}, not {topic.topic_id}")

    def _judge_loaded(self, machine: Machine, log: PartitionLog, flushed: int) -> None:
        """S1: everything flushed is there again; the rules on committed records do the rest."""
        if log.end_offset < flushed and not (machine.disk.failed or machine.damaged):
            why = f"ends at {log.end_offset}, and was flushed up to {flushed}"
            raise Violation("S1", f"{log.partition} on {machine.name} {why}")

    def _judge_condemned(self, machine: Machine, log: PartitionLog, index: int) -> None:
        """S4: after a failure nothing is appended any more."""
        key = (machine.node_id, log.topic_id, index)
        known = self._condemned.get(key)
        if known is None or known.log is not log:
            self._condemned[key] = _Condemned(log, log.end_offset)
        elif log.end_offset > known.end_offset:
            why = f"grew from {known.end_offset} to {log.end_offset} after its disk had failed"
            raise Violation("S4", f"{log.partition} on {machine.name} {why}")


def judge_end(machine: Machine, ghost: PartitionGhost, held: HeldLog, log: PartitionLog) -> None:
    """S5: a log ends where its bytes do."""
    if held.batches and held.end_offset != log.end_offset:
        why = f"says it ends at {log.end_offset}, its bytes end at {held.end_offset}"
        raise Violation("S5", f"{ghost.name} on {machine.name} {why}")


def flushed_end(held: HeldLog, files: MemoryFileSystem) -> int:
    """How far a log is on stable storage from its start on, batch by batch."""
    end = 0
    for batch in held.batches:
        path = held.path_of(batch)
        try:
            node = files.file_at(path) if path is not None else None
        except DiskError:
            node = None
        if node is None or node.parent.durable.get(node.name) is not node:
            break
        place = slice(batch.position, batch.position + len(batch.data))
        if node.shared < place.stop or node.data[place] != batch.data:
            break
        end = batch.next_offset
    return end
