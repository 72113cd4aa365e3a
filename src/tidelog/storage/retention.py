"""Which segments of a log are too old, too many or below its start, and taking them away.

Invariant  Nothing at or above the high watermark goes, and never the active segment.
Invariant  The start moves before the files do; files disappear oldest first, so that whatever a
           crash brings back still is the end of a log.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from tidelog.model.time import Now
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


class RemovedSegment(NamedTuple):
    """A segment that is no longer part of the log, and why."""

    base_offset: int
    size_bytes: int
    cause: str


_Condition: TypeAlias = Callable[[int, Segment], bool]


def delete_expired(log: SegmentedLog, now: Now, high_watermark: int) -> list[RemovedSegment]:
    """Apply the rules one after the other, each to what the one before it left."""
    removed = _delete_while(log, now, high_watermark, "log start", _below_start(log))
    if log.config.cleanup_delete:
        removed += _delete_while(log, now, high_watermark, "retention.bytes", _over_size(log))
        removed += _delete_while(log, now, high_watermark, "retention.ms", _too_old(log, now))
    return removed


def raise_start_to(log: SegmentedLog, offset: int) -> bool:
    """Let the log start at `offset`; whether that was news. Files follow with retention."""
    if offset <= log.start_offset:
        return False
    log.start_offset = offset
    log.epochs.truncate_from_start(offset)
    return True


def _delete_while(
    log: SegmentedLog, now: Now, high_watermark: int, cause: str, expired: _Condition
) -> list[RemovedSegment]:
    segments, count = log.segments, 0
    for slot, segment in enumerate(segments):
        if segment is segments.active and segment.size == 0:
            break
        if segments.end_of(slot, log.end_offset) > high_watermark or not expired(slot, segment):
            break
        count += 1
    if count == 0:
        return []
    if count == len(segments):
        log.roll(now)
        log.flushes.began_anew()
    raise_start_to(log, segments[count].base_offset)
    taken = segments.take_first(count)
    due_ms = now.monotonic_ms + log.config.file_delete_delay_ms
    for segment in taken:
        log.removals.add(segment, due_ms)
    log.flushes.names_changed()
    log.producers.snapshots.remove([segment.base_offset for segment in taken])
    return [RemovedSegment(segment.base_offset, segment.size, cause) for segment in taken]


def _below_start(log: SegmentedLog) -> _Condition:
    segments = log.segments
    return lambda slot, _: (
        slot + 1 < len(segments) and segments[slot + 1].base_offset <= log.start_offset
    )


def _over_size(log: SegmentedLog) -> _Condition:
    limit = log.config.retention_bytes
    excess = log.size_bytes - limit if limit >= 0 else -1

    def expired(_slot: int, segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return expired


def _too_old(log: SegmentedLog, now: Now) -> _Condition:
    limit = log.config.retention_ms

    def expired(_slot: int, segment: Segment) -> bool:
        if limit < 0 or now.wall_ms - segment.stated_max_timestamp <= limit:
            return False
        newest = segment.max_timestamp  # what is to be deleted is worth a closer look
        if newest < 0:
            newest = log.place.files.modified_ms(segment.path)
        return now.wall_ms - newest > limit

    return expired
