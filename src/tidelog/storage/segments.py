"""The segments of a log in the order of their offsets.

Invariant  There is always at least one; the last is the active one, which takes appends.
Invariant  Base offsets strictly rise.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from tidelog.model.errors import invariant
from tidelog.storage.segment import Segment


class Segments:
    """A sorted list that knows which segment an offset lies in."""

    __slots__ = ("_bases", "_segments", "active")

    def __init__(self, segments: Iterable[Segment]) -> None:
        self._segments = sorted(segments, key=lambda segment: segment.base_offset)
        self._bases = [segment.base_offset for segment in self._segments]
        invariant(bool(self._segments), "a log has at least one segment")
        self.active = self._segments[-1]

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def __len__(self) -> int:
        return len(self._segments)

    def __getitem__(self, slot: int) -> Segment:
        return self._segments[slot]

    @property
    def first(self) -> Segment:
        return self._segments[0]

    def slot_of(self, offset: int) -> int:
        """Which segment an offset lies in; the first one for offsets below the log."""
        return max(0, bisect_right(self._bases, offset) - 1)

    def end_of(self, slot: int, log_end: int) -> int:
        """The offset at which a segment ends: the next one's base, or the end of the log."""
        return self._bases[slot + 1] if slot + 1 < len(self._bases) else log_end

    def add(self, segment: Segment) -> None:
        """Put a new active segment behind all others."""
        invariant(segment.base_offset > self._bases[-1], "segments follow one another")
        self._segments.append(segment)
        self._bases.append(segment.base_offset)
        self.active = segment

    def take_first(self, count: int) -> list[Segment]:
        """Take the oldest segments out; one must stay."""
        invariant(count < len(self._segments), "the active segment stays")
        taken = self._segments[:count]
        del self._segments[:count], self._bases[:count]
        return taken

    def take_after(self, slot: int) -> list[Segment]:
        """Take every segment behind `slot` out."""
        taken = self._segments[slot + 1 :]
        del self._segments[slot + 1 :], self._bases[slot + 1 :]
        self.active = self._segments[-1]
        return taken

    def replace(self, replaced: Sequence[Segment], segment: Segment) -> None:
        """Let one segment stand in for neighbours, of which the active one is none."""
        slot = self.slot_of(segment.base_offset)
        end = slot + len(replaced)
        invariant(self._segments[slot:end] == list(replaced), "what is replaced is here")
        invariant(end < len(self._segments), "the active segment stays")
        self._segments[slot:end] = [segment]
        self._bases[slot:end] = [segment.base_offset]

    def replace_all(self, segment: Segment) -> None:
        """Let one new segment stand in for all of them."""
        self._segments, self._bases, self.active = [segment], [segment.base_offset], segment
