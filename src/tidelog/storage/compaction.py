"""One cleaning pass over a log: the newest record of each key is kept, older ones are left out.

The pass first notes the newest offset of every key in the dirty part of the log, then writes the
segments from the first one on anew, several small ones into one, each beside the old ones with the
ending `.cleaned`. It works in slices, away from the loop; between two slices the loop swaps
finished segments in (`PartitionLog.swap_in`).

Invariant  Only segments that take no appends any more are read, all of them below the last stable
           offset, durable, and without a record younger than `min.compaction.lag.ms` (D20).
Invariant  A damaged batch ends the pass: it is neither dropped nor given a new checksum.
Invariant  What a pass writes is durable before it is offered for a swap, and the swapped names
           are before the pass is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from tidelog.model.time import Now
from tidelog.records.batch import BatchHeader, CorruptBatch, crc_matches, read_header
from tidelog.records.control_batch import read_transaction_marker
from tidelog.records.rewriting import open_batch
from tidelog.storage.batch_cleaning import (
    BYTES_PER_KEY,
    BatchCleaning,
    CleanedTransactions,
    LastBatch,
    OffsetMap,
)
from tidelog.storage.batch_scan import FoundBatch, scan_batches
from tidelog.storage.filesystem import Buffer, File, FileSystem
from tidelog.storage.log_config import LogConfig
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.segment import CLEANED, Segment
from tidelog.storage.transaction_index import AbortedTransaction

SLICE_BYTES: Final = 1 << 19
"""Read between two looks at whether somebody else needs the thread."""


class Source(NamedTuple):
    """A segment as the pass found it."""

    segment: Segment
    file: File
    size: int
    index_bytes: int
    end_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionPlan:
    """All that a pass has to know of its log."""

    files: FileSystem
    directory: str
    config: LogConfig
    sources: Sequence[Source]
    first_dirty_offset: int
    end_offset: int
    """Nothing at or above is read."""
    aborted: Sequence[AbortedTransaction]
    """All that have records in the sources, wherever their markers lie."""
    last_batches: Mapping[int, LastBatch]
    max_keys: int
    generation: int
    """Of the log's cuts: after another one the pass is worth nothing."""
    now: Now


class CleanedSegment(NamedTuple):
    """Finished output, and what it stands for."""

    segment: Segment
    sources: Sequence[Segment]


class Compaction:
    """A pass under way; `run_slice` blocks for a short while and may be called from any thread."""

    def __init__(self, plan: CompactionPlan) -> None:
        self.plan = plan
        self.is_done = False
        self.finished: CleanedSegment | None = None
        """To be swapped in, and set to None, before the next slice."""
        self.cleaned_to = plan.first_dirty_offset
        """Once the pass is done: where the dirty part of the log begins now."""
        self.read_bytes = 0
        self.written_bytes = 0
        self._unfinished: Segment | None = None
        self._slices = self._work()

    def run_slice(self) -> None:
        """Go on for a slice; raises `DiskError` or `CorruptBatch` when the pass cannot go on."""
        self.is_done = next(self._slices, None) is None

    def abandon(self) -> None:
        """Remove what was written and not swapped in."""
        for segment in (self._unfinished, self.finished and self.finished.segment):
            if segment is not None:
                segment.remove()
        self._unfinished = self.finished = None

    def _work(self) -> Iterator[bool]:
        plan = self.plan
        keys = OffsetMap(plan.first_dirty_offset, plan.max_keys)
        yield from self._map_keys(keys)
        self.cleaned_to = keys.end_offset
        cleaning = BatchCleaning(
            keys,
            CleanedTransactions(plan.aborted),
            plan.last_batches,
            plan.now.wall_ms,
            plan.config.delete_retention_ms,
        )
        below = [source for source in plan.sources if source.segment.base_offset < keys.end_offset]
        for group in _grouped(below, plan.config):
            yield from self._rewrite(group, cleaning)
        plan.files.sync_directory(plan.directory)

    # Which keys are there

    def _map_keys(self, keys: OffsetMap) -> Iterator[bool]:
        transactions = CleanedTransactions(self.plan.aborted)
        read = 0
        for source in self.plan.sources:
            if source.end_offset <= self.plan.first_dirty_offset:
                continue
            for _, header, batch in _batches_of(source):
                if header.next_offset <= self.plan.first_dirty_offset:
                    continue
                if not _map_batch(keys, transactions, header, batch):
                    return
                read += header.size
                if read >= SLICE_BYTES:
                    read = 0
                    yield True
            keys.end_offset = max(keys.end_offset, source.end_offset)

    # Writing them anew

    def _rewrite(self, group: Sequence[Source], cleaning: BatchCleaning) -> Iterator[bool]:
        output = self._unfinished = self._new_segment(group[0].segment.base_offset)
        cleaning.segment_end = group[-1].end_offset
        for source in group:
            kept: list[Buffer] = []
            read = 0
            for _, header, batch in _batches_of(source):
                cleaned = cleaning.clean(header, batch)
                if cleaned is not None:
                    kept.append(cleaned)
                read += header.size
                if read >= SLICE_BYTES:
                    _write(output, kept)
                    kept, read = [], 0
                    yield True
            _write(output, kept)
            for aborted in cleaning.aborted:
                output.transaction_index.append(aborted)
            cleaning.aborted.clear()
            self.read_bytes += source.size
        output.add_time_entry()
        output.sync()
        self.written_bytes += output.size
        self._unfinished, self.finished = (
            None,
            CleanedSegment(output, [source.segment for source in group]),
        )
        yield True

    def _new_segment(self, base_offset: int) -> Segment:
        plan = self.plan
        segment = Segment(
            plan.files,
            plan.directory,
            base_offset,
            size=0,
            config=plan.config,
            created_ms=plan.now.monotonic_ms,
            ending=CLEANED,
        )
        segment.remove()  # whatever an earlier pass that failed left there
        segment.ensure_exist()
        return segment


def _batches_of(source: Source) -> Iterator[FoundBatch]:
    """Every batch of a segment; CorruptBatch where one cannot be what was written there."""
    position, offset = 0, source.segment.base_offset
    for found in scan_batches(source.file, 0, source.size):
        header = found.header
        fits = offset <= header.base_offset < header.next_offset <= source.end_offset
        if not (fits and crc_matches(found.data)):
            break
        yield found
        position, offset = found.position + header.size, header.next_offset
    if position != source.size:
        raise CorruptBatch(f"{source.file.path} is damaged at {position}")


def _map_batch(
    keys: OffsetMap, transactions: CleanedTransactions, header: BatchHeader, batch: memoryview
) -> bool:
    """Note the keys of a batch; whether there was room for them."""
    if header.is_control:
        transactions.end(header, read_transaction_marker(batch))
    elif not transactions.holds_aborted(header):
        if not keys.has_room_for(header.record_count):
            return False
        opened = open_batch(header, batch)
        for record in opened.fields:
            key = opened.key(record)
            if key is not None:
                keys.put(key, header.base_offset + record.offset_delta)
    keys.end_offset = max(keys.end_offset, header.next_offset)
    return True


def _grouped(sources: Sequence[Source], config: LogConfig) -> Iterator[Sequence[Source]]:
    """Neighbours that fit into one segment together."""
    group: list[Source] = []
    size = index_bytes = 0
    for source in sources:
        fits = (
            group
            and size + source.size <= config.segment_bytes
            and index_bytes + source.index_bytes <= config.index_bytes
            and source.end_offset - group[0].segment.base_offset <= RELATIVE_OFFSET_MAX
        )
        if group and not fits:
            yield group
            group, size, index_bytes = [], 0, 0
        group.append(source)
        size += source.size
        index_bytes += source.index_bytes
    if group:
        yield group


def _write(output: Segment, batches: Sequence[Buffer]) -> None:
    if not batches:
        return
    position = output.size
    output.write(b"".join(batches))
    for batch in batches:
        header = read_header(batch)
        output.note(header.last_offset, header.max_timestamp, position, header.size)
        position += header.size


class DirtyRange(NamedTuple):
    """The offsets a cleaning pass would look at first, and how dirty they make the log."""

    first_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool
    """Its first record has waited for longer than `max.compaction.lag.ms`."""

    @property
    def ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes)


class CleanerMemory(NamedTuple):
    """How much of it the map of keys may take."""

    buffer_bytes: int
    load_factor: float

    @property
    def max_keys(self) -> int:
        return max(1, int(self.buffer_bytes * self.load_factor) // BYTES_PER_KEY)


def dirty_range(log: PartitionLog, last_stable_offset: int, now: Now) -> DirtyRange | None:
    """What there is to clean; None when there is nothing, or the log cannot be read in full."""
    if log.damage:
        return None
    first = log.first_dirty_offset
    if not log.start_offset <= first <= log.end_offset:
        first = log.start_offset
    segments = log.segments
    end = _first_uncleanable(log, first, last_stable_offset, now)
    clean = dirty = 0
    overdue = False
    for slot, segment in enumerate(segments):
        if segments.end_of(slot, log.end_offset) > end:
            break
        if segments.end_of(slot, log.end_offset) <= first:
            clean += segment.size
        else:
            if not dirty and segment.first_timestamp >= 0:
                waited_ms = now.wall_ms - segment.first_timestamp
                overdue = waited_ms > log.config.max_compaction_lag_ms
            dirty += segment.size
    return DirtyRange(first, end, clean, dirty, overdue) if dirty else None


def is_worth_cleaning(log: PartitionLog, dirty: DirtyRange) -> bool:
    """Whether enough of the log is dirty, or something in it waits for too long."""
    return dirty.is_overdue or dirty.ratio > log.config.min_cleanable_dirty_ratio


def plan_compaction(
    log: PartitionLog, dirty: DirtyRange, memory: CleanerMemory, now: Now
) -> CompactionPlan:
    """A pass over a log; from then on its files are in use."""
    segments = log.segments
    sources = [
        Source(
            segment,
            segment.file,
            segment.size,
            segment.offset_index.file.size(),
            segments.end_of(slot, log.end_offset),
        )
        for slot, segment in enumerate(segments)
        if segments.end_of(slot, log.end_offset) <= dirty.end_offset
    ]
    return CompactionPlan(
        files=log.place.files,
        directory=log.directory,
        config=log.config,
        sources=sources,
        first_dirty_offset=dirty.first_offset,
        end_offset=dirty.end_offset,
        aborted=segments.aborted_transactions(sources[0].segment.base_offset, dirty.end_offset),
        last_batches={
            producer_id: LastBatch(last_offset, epoch)
            for producer_id, last_offset, epoch in log.producers.last_offsets()
        },
        max_keys=memory.max_keys,
        generation=log.flushes.generation,
        now=now,
    )


def _first_uncleanable(
    log: PartitionLog, first_dirty: int, last_stable_offset: int, now: Now
) -> int:
    end = min(last_stable_offset, log.segments.active.base_offset, log.recovery_point)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in log.segments:
            if segment.base_offset >= end:
                break
            too_young = now.wall_ms - segment.stated_max_timestamp < lag_ms
            if segment.base_offset >= first_dirty and too_young:
                return segment.base_offset
    return end
