"""The rules of the quorum itself, C1 to C7, as far as they show from outside."""

from __future__ import annotations

from tidelog.controller.records import MetadataRecord
from tidelog.quorum.leader import Leader
from tidelog.quorum.quorum import Quorum
from tidelog.simulator.machine import Machine
from tidelog.simulator.violation import Violation


class QuorumRules:
    """Looks at each member of the quorum after each of its steps."""

    def __init__(self) -> None:
        self._leaders: dict[int, int] = {}
        self._epochs: dict[int, int] = {}
        """The latest epoch each node has been in, across its lives (C2)."""
        self._committed: dict[int, bytes] = {}
        """Each committed batch of the metadata log by its first offset, as first seen (C7)."""
        self._compared: dict[int, tuple[int, int]] = {}
        """Up to which offset a node was compared, in which of its lives."""

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        quorum = node.quorum
        self._judge_epoch(machine, quorum.epoch)
        if isinstance(quorum.role, Leader):
            self._judge_leader(machine, quorum.role)
        self._judge_log(machine, quorum)

    def forget(self, node_id: int) -> None:
        """A node has another disk, which may know of earlier epochs only."""
        self._epochs.pop(node_id, None)

    def _judge_epoch(self, machine: Machine, epoch: int) -> None:
        before = self._epochs.get(machine.node_id, 0)
        if epoch < before:
            raise Violation("C2", f"{machine.name} went from quorum epoch {before} to {epoch}")
        self._epochs[machine.node_id] = epoch

    def _judge_leader(self, machine: Machine, leader: Leader) -> None:
        known = self._leaders.setdefault(leader.epoch, machine.node_id)
        if known != machine.node_id:
            raise Violation("C1", f"{known} and {machine.node_id} lead quorum epoch {leader.epoch}")

    def _judge_log(self, machine: Machine, quorum: Quorum[MetadataRecord]) -> None:
        """C7, and with it C5 and C6: what was committed once is there, and nothing else."""
        life, seen = self._compared.get(machine.node_id, (-1, 0))
        if life != machine.started_ms:
            seen = 0
        for offset, batch in quorum.committed_batches(seen):
            known = self._committed.setdefault(offset, batch)
            if known != batch:
                why = f"has something else committed at offset {offset} than others"
                raise Violation("C7", f"{machine.name} {why}")
        self._compared[machine.node_id] = (machine.started_ms, quorum.high_watermark)
