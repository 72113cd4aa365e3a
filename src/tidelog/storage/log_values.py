"""What a log answers with."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.storage.filesystem import File


class Appended(NamedTuple):
    """Where a batch stands now."""

    first_offset: int
    last_offset: int
    timestamp: int
    """The time the log gave it, or -1 when its records keep their own."""
    duplicate: bool
    """It stood there before: nothing was written this time."""


class LogSlice(NamedTuple):
    """A range of bytes of a log file: whole batches, of which the last may be cut."""

    file: File
    position: int
    length: int

    def read(self) -> bytes:
        return self.file.read(self.position, self.length)


class TimestampOffset(NamedTuple):
    """A record by its time."""

    timestamp: int
    offset: int
    leader_epoch: int


class RemovedSegment(NamedTuple):
    """A segment that is no longer part of the log, and why."""

    base_offset: int
    size_bytes: int
    cause: str


class Damage(NamedTuple):
    """Flushed records in [first_offset, next_offset) that this replica no longer has.

    Until it gets them from a peer, it must not pass for a replica that holds them.
    """

    base_offset: int
    """Of the segment."""
    position: int
    end_position: int
    """Where the next whole batch begins, or the segment ends."""
    first_offset: int
    next_offset: int
    in_place: bool
    """There is more behind it, which stays; if not, the log now ends at `first_offset`."""

    def is_in(self, base_offset: int, start: int) -> bool:
        """Whether it takes up bytes of that segment for offsets from `start` on."""
        return self.in_place and self.base_offset == base_offset and self.first_offset >= start
