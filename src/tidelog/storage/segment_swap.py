"""Letting a cleaned segment take the place of the segments it was made from.

The files go from `.cleaned` to `.swap`, the old ones to `.deleted`, the new ones to their final
names. Whatever a crash leaves of that, `leftovers` finishes or undoes.

Invariant  The cleaned files are durable before the first name changes, and names reach the disk
           in the order in which they change.
Invariant  Nothing is swapped into a log that was cut, or lost a segment, since the pass began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.time import Now
from tidelog.storage.compaction import CleanedSegment
from tidelog.storage.segment_files import CLEANED, SWAP

if TYPE_CHECKING:
    from tidelog.storage.segmented_log import SegmentedLog


def can_swap(log: SegmentedLog, cleaned: CleanedSegment, generation: int) -> bool:
    """Whether the log still has, unchanged, what the cleaned segment was made from."""
    if log.flushes.generation != generation:
        return False
    slot = log.segments.slot_of(cleaned.segment.base_offset)
    here = [log.segments[at] for at in range(slot, len(log.segments) - 1)]
    sources = [source.segment for source in cleaned.replaced]
    return here[: len(sources)] == sources


def swap(log: SegmentedLog, cleaned: CleanedSegment, now: Now) -> None:
    """Put the cleaned segment in place; the old files go after `file.delete.delay.ms`."""
    segment = cleaned.segment
    replaced = [source.segment for source in cleaned.replaced]
    segment.change_ending(CLEANED, SWAP)
    due_ms = now.monotonic_ms + log.config.file_delete_delay_ms
    for old in replaced:
        log.removals.add(old, due_ms)
    segment.change_ending(SWAP, "")
    log.segments.replace(replaced, segment)
    log.producers.snapshots.remove([old.base_offset for old in replaced[1:]])
    log.flushes.names_changed()
