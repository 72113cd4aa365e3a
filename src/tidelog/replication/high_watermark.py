"""The high watermark: the offset below which a record can no longer be lost.

Invariant  Each offset below the mark is stored by every in-sync replica.
Invariant  Within one leader epoch the mark only rises.
"""

from __future__ import annotations

from tidelog.model.errors import invariant


class HighWatermark:
    """The mark of one replica."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def raise_to(self, candidate: int, log_end: int) -> bool:
        """Move up to `candidate` if that is higher; say whether the mark moved."""
        if candidate <= self.offset:
            return False
        invariant(candidate <= log_end, "the high watermark lies within the log")
        self.offset = candidate
        return True

    def clamp(self, log_start: int, log_end: int) -> None:
        """Keep the mark inside a log whose ends have moved."""
        self.offset = max(log_start, min(self.offset, log_end))
