"""Segments that are no longer part of a log but whose files stay for a while.

Invariant  Their files bear another name at once, so that no start loads them; whoever holds one
           of them open can read it until it is removed.
"""

from __future__ import annotations

from collections import deque

from tidelog.model.time import Now
from tidelog.storage.segment import Segment


class Removals:
    """Segments in the order in which they were set aside."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Segment]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, segment: Segment, due_ms: int) -> None:
        """Set the files aside now; they go at `due_ms`."""
        segment.set_aside()
        self._waiting.append((due_ms, segment))

    def sweep(self, now: Now) -> int:
        """Remove the files whose time has come; how many segments those were."""
        count = 0
        while self._waiting and self._waiting[0][0] <= now.monotonic_ms:
            self._waiting.popleft()[1].remove()
            count += 1
        return count

    def close(self) -> None:
        """Give the files back; the next start removes them."""
        for _, segment in self._waiting:
            segment.close()
        self._waiting.clear()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed: go by the new name from now on."""
        for _, segment in self._waiting:
            segment.moved_to(directory)
