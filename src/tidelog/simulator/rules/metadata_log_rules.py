"""What is committed in the metadata log and who holds it, C4, C5, C6, C7 and C9."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Final, NamedTuple

from tidelog.controller.records import MetadataRecord
from tidelog.node.node import Node
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.quorum import Quorum
from tidelog.quorum.roles import Role
from tidelog.records.batch import HEADER_SIZE, read_header
from tidelog.simulator.disk.machine_disk import Disk
from tidelog.simulator.rules.election_rules import METADATA
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.world.machine import Machine
from tidelog.storage.leader_epoch_cache import EpochStart

_start: Final = attrgetter("start_offset")


class _Seen(NamedTuple):
    """A replica as it was at the last look."""

    node: Node
    role: Role
    high_watermark: int
    end: int
    durable_end: int
    start: int
    epochs: Sequence[EpochStart]


@dataclass(slots=True)
class _Held:
    """What the disk of a replica holds for good, whether its node runs or not."""

    below: int = 0
    """Committed, and durable here."""
    seen: _Seen | None = None
    walked: tuple[str, int, int] = ("", 0, 0)
    """The file, and where in it everything below that high watermark is known to be durable and
    committed."""

    def holds(self, disk: Disk, high_watermark: int, epoch: int) -> bool:
        """Whether a loss of power would leave everything below, the last of it in that epoch."""
        files = disk.files
        bases = sorted(int(name[:-4]) for name in files.list(METADATA) if name.endswith(".log"))
        slot = bisect_right(bases, high_watermark - 1) - 1
        if slot < 0:  # it continues a snapshot that reaches further
            return bool(bases)
        path = f"{METADATA}/{bases[slot]:020}.log"
        data = disk.durable(path) or b""
        walked, so_far, below = self.walked
        position = so_far if walked == path and below <= high_watermark else 0
        while position + HEADER_SIZE <= len(data):
            header = read_header(data, position)
            if header.next_offset >= high_watermark:
                has_it = position + header.size <= len(data) and header.leader_epoch == epoch
                if has_it:
                    self.walked = (path, position, high_watermark)
                return has_it
            position += header.size
        return False


class MetadataLogRules:
    """Looks at the metadata log of a node when that has changed."""

    def __init__(self) -> None:
        self._held: dict[ReplicaKey, _Held] = {}
        self._committed: dict[int, bytes] = {}
        """Each committed batch by its first offset, as first seen (C7)."""

    def look_at(self, machine: Machine) -> None:
        """After a step of this machine's node."""
        node = machine.node
        if node is None:
            return
        quorum = node.quorum
        held = self._held.get(quorum.identity)
        if held is None:
            held = self._held[quorum.identity] = _Held()
        before = held.seen
        now = _Seen(
            node,
            quorum.role,
            quorum.replica.high_watermark,
            quorum.log.end_offset,
            quorum.log.durable_end,
            quorum.log.start_offset,
            quorum.log.epochs,
        )
        if before is not None and now.durable_end < before.durable_end:
            # A node that starts again knows less of what was synced than was: it is there still.
            now = now._replace(durable_end=min(now.end, before.durable_end))
        if before == now:
            return
        held.seen = now
        if before is not None and before.node is not node:
            before = None
        _judge_kept(machine, held, before, now)
        if before is None or before.start != now.start:
            _judge_start(machine, quorum, before, now)
        if before is None or before.high_watermark != now.high_watermark:
            if before is not None and isinstance(now.role, Leader):
                self._judge_commitment(machine, quorum, now.role, now)
            self._judge_same(machine, quorum, 0 if before is None else before.high_watermark)
        held.below = max(held.below, min(now.high_watermark, now.durable_end))

    def forget(self, node_id: int) -> None:
        """A node has an older copy of its disk, which lacks what came later."""
        self._held = {own: held for own, held in self._held.items() if own.id != node_id}

    def _judge_commitment(
        self, machine: Machine, quorum: Quorum[MetadataRecord], leader: Leader, now: _Seen
    ) -> None:
        """C4: a record of the leader's own epoch is committed. C5: by a majority, durably."""
        what = f"{machine.name} commits up to {now.high_watermark} in quorum epoch {leader.epoch}"
        slot = bisect_right(now.epochs, now.high_watermark - 1, key=_start) - 1
        written_in = now.epochs[slot].epoch if slot >= 0 else -1
        if written_in != leader.epoch:
            raise Violation("C4", f"{what}, the last of it written in {written_in}")
        voters = quorum.voters.voters
        holding = [
            voter.voter_id
            for voter in voters
            if (held := self._held.get(ReplicaKey(*voter.key))) is not None
            and (owner := machine.world.machines[voter.voter_id]).directory_id == voter.key[1]
            and held.holds(owner.disk, now.high_watermark, leader.epoch)
        ]
        if len(holding) <= len(voters) // 2:
            raise Violation("C5", f"{what}, which of {quorum.voters.voter_ids} only {holding} hold")

    def _judge_same(self, machine: Machine, quorum: Quorum[MetadataRecord], seen: int) -> None:
        """C7: what was committed once is committed everywhere, and nothing else."""
        for offset, batch in quorum.replica.committed_batches(seen):
            known = self._committed.setdefault(offset, batch)
            if known != batch:
                why = f"has something else committed at offset {offset} than others"
                raise Violation("C7", f"{machine.name} {why}")


def _judge_kept(machine: Machine, held: _Held, before: _Seen | None, now: _Seen) -> None:
    """C6: what is committed stays, in this life and, if it was durable, in the next."""
    below = held.below if before is None else max(held.below, before.high_watermark)
    if now.end < below or (before is not None and now.high_watermark < before.high_watermark):
        why = f"ends at {now.end} with the high watermark at {now.high_watermark}"
        raise Violation("C6", f"the metadata log of {machine.name} {why}, committed was {below}")


def _judge_start(
    machine: Machine, quorum: Quorum[MetadataRecord], before: _Seen | None, now: _Seen
) -> None:
    """C9: a log that begins later continues a snapshot; a leader never loads one."""
    what = f"the metadata log of {machine.name} begins at {now.start}"
    snapshot = quorum.log.oldest_snapshot
    if now.start > 0 and (
        snapshot is None
        or snapshot.offset != now.start
        or not machine.disk.files.exists(f"{METADATA}/{snapshot.file_name}")
    ):
        raise Violation("C9", f"{what}, and its oldest snapshot is {snapshot}")
    if before is not None and isinstance(before.role, Leader) and now.start > before.end:
        raise Violation("C9", f"{what}, and it leads what ended at {before.end}")
