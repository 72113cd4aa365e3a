"""Cutting a log: every part of it follows.

Invariant  A recovery point that may be on disk is lowered there before any byte goes, so that no
           start takes for flushed what was cut off and written anew. Who may not wait for the disk
           has that done by the job that `lowering` gives, and cuts when there is none.
Invariant  After a crash in the middle the log is as before, as afterwards or in between, but never
           has a hole: a start drops later segments that do not follow, and nothing is appended as
           a follower before later segments are gone for good (`is_settled`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.errors import invariant
from tidelog.model.time import Now
from tidelog.storage.producer_replay import replay
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


class Lower(NamedTuple):
    """The most that may be written down about a log that is to be cut."""

    recovery_point: int
    start_offset: int


def lower_for(log: SegmentedLog, offset: int) -> Lower:
    """What a cut to `offset`, below the end of the log, has to lower."""
    first = log.segments.first.base_offset
    segment = log.segments[log.segments.slot_of(offset)]
    if offset < first or (offset <= log.start_offset and _is_within_a_batch(segment, offset)):
        return Lower(min(offset, first), min(log.start_offset, offset))
    # Not just to `offset`: until the next flush a power cut can undo the cut, and a start must
    # then look at this segment even if another one begins at `offset`.
    return Lower(segment.base_offset, min(log.start_offset, offset))


def lower_for_all(log: SegmentedLog, offset: int, start_offset: int) -> Lower:
    """What has to be lowered for a log that is to begin anew at `offset`."""
    first = log.segments.first.base_offset
    return Lower(min(offset, first), min(log.start_offset, start_offset))


def truncate_to(log: SegmentedLog, offset: int, now: Now) -> bool:
    """Drop everything at or above `offset`; whether records went.

    An offset at or above the end still takes away epochs in which nothing was written. One within
    a batch, where only a log can be cut that starts there, leaves nothing.
    """
    invariant(offset >= 0, f"{log.partition}: truncated to {offset}")
    if offset >= log.end_offset:
        log.epochs.truncate_from_end(log.end_offset)
        return False
    if offset < log.segments.first.base_offset:
        truncate_fully_and_start_at(log, offset, offset, now)
        return True
    slot = log.segments.slot_of(offset)
    segment = log.segments[slot]
    if offset <= log.start_offset and _is_within_a_batch(segment, offset):
        truncate_fully_and_start_at(log, offset, offset, now)
        return True
    _lower(log, lower_for(log, offset))
    _set_aside(log, log.segments.take_after(slot), now)
    damaged = [
        damage.position for damage in log.damage if damage.is_in(segment.base_offset, offset)
    ]
    segment.cut(min([segment.position_of(offset), *damaged]), offset)
    log.ends_at(offset)
    log.epochs.truncate_from_end(offset)
    first = log.segments.first.base_offset
    replayed_from = log.producers.load(first, offset, now.wall_ms)
    replay(log.producers, log.segments, replayed_from, offset)
    _forget_snapshots(log)
    return True


def truncate_fully_and_start_at(
    log: SegmentedLog, offset: int, start_offset: int, now: Now
) -> None:
    """Drop everything; the log goes on at `offset` and shows what is from `start_offset` on."""
    _lower(log, lower_for_all(log, offset, start_offset))
    _set_aside(log, list(log.segments), now)
    log.epochs.clear()
    log.producers.clear()
    _forget_snapshots(log)
    log.segments.replace_all(log.new_segment(offset, now))
    log.flushes.began_anew()
    log.ends_at(offset)
    log.start_offset = start_offset


def _forget_snapshots(log: SegmentedLog) -> None:
    """A snapshot that came back would tell of another history once the log is that long again."""
    if log.producers.snapshots.may_come_back:
        log.producers.snapshots.may_come_back = False
        log.flushes.set_aside()


def _is_within_a_batch(segment: Segment, offset: int) -> bool:
    headers = (header for _, header in segment.headers_from(offset))
    reaching = next((header for header in headers if header.last_offset >= offset), None)
    return reaching is not None and reaching.base_offset < offset


def _lower(log: SegmentedLog, lower: Lower) -> None:
    log.start_offset = lower.start_offset
    log.first_dirty_offset = min(log.first_dirty_offset, lower.recovery_point)
    log.flushes.lowered_to(lower.recovery_point)
    log.place.lowered()


def _set_aside(log: SegmentedLog, segments: Sequence[Segment], now: Now) -> None:
    """Newest first: whatever a crash brings back is the beginning of what there was."""
    due_ms = now.monotonic_ms + log.config.file_delete_delay_ms
    for segment in reversed(segments):
        log.removals.add(segment, due_ms)
    if segments:
        log.flushes.set_aside()
