"""Which of the oldest segments of a log are too old, too many or below its start.

Invariant  Nothing at or above the high watermark goes, and never an active segment without records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.storage.filesystem import FileSystem
from tidelog.storage.segment import Segment
from tidelog.storage.segments import Segments

Expired: TypeAlias = Callable[[int, Segment], bool]
"""Whether a rule gives a segment up, by its slot; asked of the oldest first, until one stays."""


def count_expired(segments: Segments, log_end: int, high_watermark: int, expired: Expired) -> int:
    """How many segments, from the oldest on, a rule gives up."""
    count = 0
    for slot, segment in enumerate(segments):
        if segment is segments.active and segment.size == 0:
            break
        if segments.end_of(slot, log_end) > high_watermark or not expired(slot, segment):
            break
        count += 1
    return count


def below_start(segments: Segments, start_offset: int) -> Expired:
    """Segments whose successor covers the start of the log."""
    return lambda slot, _: (
        slot + 1 < len(segments) and segments[slot + 1].base_offset <= start_offset
    )


def over_size(segments: Segments, retention_bytes: int) -> Expired:
    """Segments without which the log still has `retention.bytes`; a negative limit keeps all."""
    excess = sum(segment.size for segment in segments) - retention_bytes
    if retention_bytes < 0:
        excess = -1

    def expired(_slot: int, segment: Segment) -> bool:
        nonlocal excess
        excess -= segment.size
        return excess >= 0

    return expired


def too_old(files: FileSystem, retention_ms: int, wall_ms: int) -> Expired:
    """Segments whose newest record is older than `retention.ms`; a negative limit keeps all."""

    def expired(_slot: int, segment: Segment) -> bool:
        if retention_ms < 0 or wall_ms - segment.stated_max_timestamp <= retention_ms:
            return False
        newest = segment.max_timestamp  # what is to be deleted is worth a closer look
        if newest < 0:
            newest = files.modified_ms(segment.path)
        return wall_ms - newest > retention_ms

    return expired
