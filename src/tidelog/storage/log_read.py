"""Finding what to answer a fetch with.

Invariant  No byte at or above `up_to` is handed out, and none that is known to be damaged.
Invariant  A slice lies in one segment and starts with the batch that holds the offset asked for,
           or with the first one behind it when compaction removed that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.records.batch import CorruptBatch
from tidelog.storage.log_values import LogSlice
from tidelog.storage.segment import Segment
from tidelog.storage.transaction_index import AbortedTransaction

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


def read(
    log: SegmentedLog, offset: int, max_bytes: int, up_to: int, whole_first_batch: bool
) -> LogSlice | None:
    """Batches from `offset` on; see `PartitionLog.read`."""
    if offset >= up_to:
        return None
    tail, active = log.tail, log.segments.active
    if offset >= tail.start_offset:
        segment, position = active, tail.position_of(offset, active.size)
    else:
        segment, position = _locate(log, offset)
    if segment is active:
        if up_to >= log.end_offset:
            end = segment.size
        elif up_to >= tail.start_offset:
            end = tail.position_of(up_to, segment.size)
        else:
            end = segment.position_of(up_to)
    else:
        end = _end_in_rolled(log, segment, up_to)
    if log.damage:
        end = _end_before_damage(log, segment, offset, position, end)
    length = end - position
    if length > max_bytes:
        length = max_bytes
        if max_bytes <= 0 and not whole_first_batch:
            return None
        first_batch = segment.batch_size_at(position)
        if first_batch > max_bytes:
            if not whole_first_batch:
                return None
            length = first_batch
    return LogSlice(segment.file, position, length) if length > 0 else None


def _locate(log: SegmentedLog, offset: int) -> tuple[Segment, int]:
    """Segment and position of the first batch that ends at or above `offset`."""
    segments = log.segments
    for slot in range(segments.slot_of(offset), len(segments)):
        segment = segments[slot]
        position = segment.position_of(offset)
        if position < segment.size or segment is segments.active:
            return segment, position
    return segments.active, segments.active.size


def _end_in_rolled(log: SegmentedLog, segment: Segment, up_to: int) -> int:
    segments = log.segments
    slot = segments.slot_of(segment.base_offset)
    if up_to >= segments.end_of(slot, log.end_offset):
        return segment.size
    return segment.position_of(up_to)


def _end_before_damage(
    log: SegmentedLog, segment: Segment, offset: int, position: int, end: int
) -> int:
    for damage in log.damage:
        if not damage.in_place:
            continue
        if damage.first_offset <= offset < damage.next_offset:
            raise CorruptBatch(
                f"{log.partition}: offsets {damage.first_offset} to {damage.next_offset} are "
                f"damaged in {segment.path}"
            )
        if damage.base_offset == segment.base_offset and damage.position >= position:
            end = min(end, damage.position)
    return end


def upper_bound_of(log: SegmentedLog, fetch_offset: int, length: int) -> int:
    """An offset behind everything in a slice of `length` bytes read at `fetch_offset`.

    Taken from the index, so it may lie some batches behind.
    """
    segment, position = _locate(log, fetch_offset)
    entry = segment.offset_index.first_at_or_past(position + length)
    if entry is not None:
        return entry[0]
    slot = log.segments.slot_of(segment.base_offset)
    return log.segments.end_of(slot, log.end_offset)


def aborted_transactions(
    log: SegmentedLog, fetch_offset: int, upper_bound: int
) -> list[AbortedTransaction]:
    """The aborted transactions that touch [fetch_offset, upper_bound), in order of their ends."""
    found: list[AbortedTransaction] = []
    for slot in range(log.segments.slot_of(fetch_offset), len(log.segments)):
        search = log.segments[slot].transaction_index.collect(fetch_offset, upper_bound)
        found += search.transactions
        if search.complete:
            break
    return found
