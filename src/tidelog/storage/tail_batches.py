"""Where the newest batches of the active segment start, so that readers at the tail need no disk.

Followers and most consumers ask for the offset behind the last batch they got, up to a mark that
was a batch boundary a moment ago; both are found here by a search in a small array.

Invariant  For each offset at or above `start_offset` the answer is exact.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import Final

_KEPT: Final = 128


class TailBatches:
    """The last batches written, between 128 and 256 of them on a busy log."""

    __slots__ = ("_last_offsets", "_positions", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self._last_offsets = array("q")
        self._positions = array("q")

    def note(self, last_offset: int, position: int) -> None:
        """A batch that ends with `last_offset` was written at `position`."""
        self._last_offsets.append(last_offset)
        self._positions.append(position)
        if len(self._positions) >= 2 * _KEPT:
            self.start_offset = self._last_offsets[_KEPT - 1] + 1
            del self._last_offsets[:_KEPT]
            del self._positions[:_KEPT]

    def position_of(self, offset: int, end: int) -> int:
        """Start of the first batch that ends at or above `offset`, else `end`."""
        slot = bisect_left(self._last_offsets, offset)
        return self._positions[slot] if slot < len(self._positions) else end

    def restart(self, start_offset: int) -> None:
        """Forget everything: from now on only what comes at or above `start_offset` is known."""
        self.start_offset = start_offset
        del self._last_offsets[:]
        del self._positions[:]
