"""What one replica holds, batch by batch, read behind its back from its machine's disk.

Invariant  Looking changes nothing: no operation of the disk is counted, delayed or made to fail.
Invariant  Only what changed since the last look is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tidelog.model.ids import TopicPartition
from tidelog.records.batch import HEADER_SIZE, CorruptBatch, crc_matches, read_header
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.simulator.rules.violation import Violation
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import Segment


class HeldBatch(NamedTuple):
    """One batch of a log, byte for byte."""

    base_offset: int
    next_offset: int
    epoch: int
    data: bytes
    segment: int
    position: int

    @property
    def key(self) -> tuple[int, int]:
        """By this two replicas speak of the same batch."""
        return self.epoch, self.base_offset


class Changed(NamedTuple):
    """What a look found."""

    added: Sequence[HeldBatch]
    cut_to: int | None
    """The lowest offset from which on batches went, if any did."""
    is_thinned: bool = False
    """A compacted log was cleaned or loaded since the last look: everything was read again."""


class HeldLog:
    """The batches of one replica; outlives its process, as the disk does."""

    def __init__(self, node_id: int, name: TopicPartition) -> None:
        self.node_id = node_id
        self.name = name
        self.batches: list[HeldBatch] = []
        self.epoch_starts: list[tuple[int, int]] = []
        """Each epoch with records, and the offset of its first."""
        self.start_offset = 0
        self.unreadable = False
        """Its files were damaged under this process: nobody knows what it holds."""
        self.loaded_end = 0
        """Where the log ended when it was last loaded or cut: what its producers had done below was
        read from it anew."""
        self._log: PartitionLog | None = None
        self._segments: dict[int, Segment] = {}

    def batch_before(self, added: Sequence[HeldBatch]) -> HeldBatch | None:
        """The one that stands before what was added last."""
        index = len(self.batches) - len(added) - 1
        return self.batches[index] if index >= 0 else None

    @property
    def end_offset(self) -> int:
        return self.batches[-1].next_offset if self.batches else self.start_offset

    def start_of(self, epoch: int) -> int:
        """Where an epoch begins: at its first batch, or at the end if it has none."""
        starts = (offset for each, offset in self.epoch_starts if each == epoch)
        return next(starts, self.end_offset)

    def path_of(self, batch: HeldBatch) -> str | None:
        """The file that a batch is in."""
        log = self._log
        if log is None:
            return None
        return log.segments[log.segments.slot_of(batch.base_offset)].path

    def look(self, log: PartitionLog, files: MemoryFileSystem, *, damaged: bool) -> Changed:
        """Read what is new; `damaged` says that nonsense in the files is no wonder."""
        cut_to: int | None = None
        anew = log is not self._log
        is_compacted = log.config.cleanup_compact and not anew and self._is_compacted(log)
        before = self.batches
        if anew or is_compacted:
            self._log = log
            self.batches = []
            self.epoch_starts = []
            self.unreadable = False
        if log.config.cleanup_compact:
            self._segments = {segment.base_offset: segment for segment in log.segments}
        self.start_offset = log.start_offset
        self._forget_removed(log.segments.first.base_offset)
        batches = self.batches
        while batches and not self._is_still_there(batches[-1], log, files):
            gone = batches.pop()
            cut_to = gone.base_offset
            if self.epoch_starts[-1] == gone.key:
                self.epoch_starts.pop()
        if cut_to is not None:
            self.loaded_end = self.end_offset
        try:
            added = list(self._read(log, files))
        except CorruptBatch as problem:
            if not damaged:
                raise Violation("D17", f"{self.node_id} holds nonsense: {problem}") from problem
            self.unreadable = True
            return Changed((), cut_to)
        for batch in added:
            if not self.epoch_starts or batch.epoch > self.epoch_starts[-1][0]:
                self.epoch_starts.append(batch.key)
        batches += added
        if anew:
            self.loaded_end = self.end_offset
        if is_compacted or (anew and log.config.cleanup_compact):
            return Changed(added, log.start_offset, is_thinned=True)
        if anew:
            return self._compare(before)
        return Changed(added, cut_to)

    def _is_compacted(self, log: PartitionLog) -> bool:
        """Whether a segment has taken the place of another one."""
        return any(
            self._segments.get(segment.base_offset, segment) is not segment
            for segment in log.segments
        )

    def _compare(self, before: Sequence[HeldBatch]) -> Changed:
        """After a restart: what is other than before."""
        same = 0
        offset = self.batches[0].base_offset if self.batches else self.start_offset
        known = [batch for batch in before if batch.base_offset >= offset]
        for old, new in zip(known, self.batches, strict=False):
            if old.data != new.data:
                break
            same += 1
        cut_to = known[same].base_offset if same < len(known) else None
        return Changed(self.batches[same:], cut_to)

    def _forget_removed(self, first_base: int) -> None:
        """Segments at the front are gone: retention took them, or the log began anew behind."""
        if self.batches and self.batches[0].segment < first_base:
            self.batches = [batch for batch in self.batches if batch.segment >= first_base]
            kept = self.batches[0].epoch if self.batches else None
            starts = [start for start in self.epoch_starts if kept is not None and start[0] > kept]
            self.epoch_starts = [self.batches[0].key, *starts] if self.batches else []

    def _is_still_there(self, batch: HeldBatch, log: PartitionLog, files: MemoryFileSystem) -> bool:
        if batch.next_offset > log.end_offset:
            return False
        segment = log.segments[log.segments.slot_of(batch.base_offset)]
        if segment.base_offset != batch.segment:
            return False
        data = files.file_at(segment.path).data
        return data[batch.position : batch.position + HEADER_SIZE] == batch.data[:HEADER_SIZE]

    def _read(self, log: PartitionLog, files: MemoryFileSystem) -> Iterator[HeldBatch]:
        last = self.batches[-1] if self.batches else None
        for segment in log.segments:
            position = 0
            if last is not None:
                if segment.base_offset < last.segment:
                    continue
                if segment.base_offset == last.segment:
                    position = last.position + len(last.data)
            yield from self._read_segment(segment, position, files)

    def _read_segment(
        self, segment: Segment, position: int, files: MemoryFileSystem
    ) -> Iterator[HeldBatch]:
        if position >= segment.size:
            return
        data = files.file_at(segment.path).data
        damaged = dict(segment.damaged)
        while position < segment.size:
            if position in damaged:
                position = damaged[position]
                continue
            header = read_header(data, position)
            batch = bytes(data[position : position + header.size])
            if len(batch) < header.size or not crc_matches(memoryview(batch)):
                raise CorruptBatch(f"{self.name} at {header.base_offset} in {segment.path}")
            yield HeldBatch(
                header.base_offset,
                header.next_offset,
                header.leader_epoch,
                batch,
                segment.base_offset,
                position,
            )
            position += header.size
