"""Which part of a compacted log is worth cleaning, and how much so.

Invariant  Nothing at or above the last stable offset is touched, nothing that is not durable, not
           the active segment, and no record younger than `min.compaction.lag.ms`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tidelog.model.time import Now
from tidelog.storage.batch_cleaning import LastBatch
from tidelog.storage.compaction import CompactionPlan, Source
from tidelog.storage.log_read import aborted_transactions
from tidelog.storage.offset_map import BYTES_PER_KEY

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


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


def dirty_range(log: SegmentedLog, last_stable_offset: int, now: Now) -> DirtyRange | None:
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


def is_worth_cleaning(log: SegmentedLog, dirty: DirtyRange) -> bool:
    """Whether enough of the log is dirty, or something in it waits for too long."""
    return dirty.is_overdue or dirty.ratio > log.config.min_cleanable_dirty_ratio


def plan_compaction(
    log: SegmentedLog, dirty: DirtyRange, memory: CleanerMemory, now: Now
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
        aborted=aborted_transactions(log, sources[0].segment.base_offset, dirty.end_offset),
        last_batches={
            producer_id: LastBatch(last_offset, epoch)
            for producer_id, last_offset, epoch in log.producers.last_offsets()
        },
        max_keys=memory.max_keys,
        generation=log.flushes.generation,
        now=now,
    )


def _first_uncleanable(
    log: SegmentedLog, first_dirty: int, last_stable_offset: int, now: Now
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
