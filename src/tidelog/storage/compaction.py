"""One cleaning pass over a log: the newest record of each key is kept, older ones are left out.

The pass first notes the newest offset of every key in the dirty part of the log, then writes the
segments from the first one on anew, several small ones into one, each beside the old ones with the
ending `.cleaned`. It works in slices, away from the loop; between two slices the loop swaps
finished segments in (`segment_swap`).

Invariant  Only segments that take no appends any more are read, all of them below the high
           watermark and below every open transaction (D20).
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
from tidelog.storage.batch_cleaning import BatchCleaning, LastBatch
from tidelog.storage.batch_scan import FoundBatch, scan_batches
from tidelog.storage.cleaned_transactions import CleanedTransactions
from tidelog.storage.filesystem import Buffer, File, FileSystem
from tidelog.storage.log_config import LogConfig
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.offset_map import OffsetMap
from tidelog.storage.segment import Segment
from tidelog.storage.segment_files import CLEANED
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
    replaced: Sequence[Source]


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
        self._unfinished, self.finished = None, CleanedSegment(output, group)
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
