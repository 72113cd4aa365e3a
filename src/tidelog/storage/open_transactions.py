"""The transactions that keep part of a log from being stable.

Invariant  Open transactions are kept in the order of their first offsets.
Invariant  A transaction counts as unstable until its marker lies below the high watermark.
"""

from __future__ import annotations

from collections.abc import Iterable


class OpenTransactions:
    """First offsets of undecided transactions, and of decided ones not yet replicated."""

    __slots__ = ("_decided", "_open")

    def __init__(self) -> None:
        self._open: dict[int, int] = {}
        self._decided: list[tuple[int, int]] = []  # marker offset, first offset

    def __len__(self) -> int:
        return len(self._open)

    def load(self, transactions: Iterable[tuple[int, int]]) -> None:
        """Start over with these (producer id, first offset), nothing decided."""
        self._open = dict(sorted(transactions, key=lambda transaction: transaction[1]))
        self._decided = []

    def begin(self, producer_id: int, first_offset: int) -> None:
        self._open[producer_id] = first_offset

    def end(self, producer_id: int, marker_offset: int) -> None:
        """The transaction of this producer was decided by the marker at that offset."""
        first_offset = self._open.pop(producer_id)
        decided = self._decided
        # Markers are passed in their order: one passed earlier with a higher first offset will
        # never be the lowest again.
        while decided and decided[-1][1] >= first_offset:
            decided.pop()
        decided.append((marker_offset, first_offset))

    def first_open_besides(self, producer_id: int) -> int | None:
        """The first offset of the oldest open transaction of any other producer."""
        for producer, first_offset in self._open.items():
            if producer != producer_id:
                return first_offset
        return None

    def first_unstable_offset(self, high_watermark: int) -> int | None:
        """Where the oldest transaction begins that is undecided, or decided above the mark."""
        decided = self._decided
        while decided and decided[0][0] < high_watermark:
            del decided[0]
        first = next(iter(self._open.values())) if self._open else None
        if decided and (first is None or decided[0][1] < first):
            return decided[0][1]
        return first
