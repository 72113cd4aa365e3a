"""Timers as data: what is due when, without a clock.

Invariant  Callbacks run in order of their due time, ties in the order they were set.
Invariant  A cancelled deadline never fires, and does not take room for as long as it would have.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heapify, heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from tidelog.model.time import Now

Action: TypeAlias = Callable[[Now], None]
CLEANED_ABOVE: Final = 1024


class Deadline:
    """One thing to do at one time, unless it is cancelled first."""

    __slots__ = ("action", "due_ms")

    def __init__(self, due_ms: int, action: Action) -> None:
        self.due_ms = due_ms
        self.action: Action | None = action

    def cancel(self) -> None:
        """Forget it; harmless when it has already fired."""
        self.action = None


class Deadlines:
    """All pending deadlines of a node."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Deadline]] = []
        self._order = count()
        self._clean_above = CLEANED_ABOVE

    def __len__(self) -> int:
        """How many are kept, cancelled ones included."""
        return len(self._heap)

    def at(self, due_ms: int, action: Action) -> Deadline:
        """Run `action` once monotonic time has reached `due_ms`."""
        deadline = Deadline(due_ms, action)
        heappush(self._heap, (due_ms, next(self._order), deadline))
        if len(self._heap) > self._clean_above:
            self._drop_cancelled()
        return deadline

    def _drop_cancelled(self) -> None:
        self._heap = [entry for entry in self._heap if entry[2].action is not None]
        heapify(self._heap)
        self._clean_above = max(CLEANED_ABOVE, 2 * len(self._heap))

    def every(self, first_ms: int, interval_ms: int, action: Action) -> None:
        """Run `action` again and again; a late run delays the following ones.

        Time passes between two runs, even where the interval is 0: else they would never end.
        """

        def run_and_set_again(now: Now) -> None:
            self.at(now.monotonic_ms + max(1, interval_ms), run_and_set_again)
            action(now)

        self.at(first_ms, run_and_set_again)

    @property
    def next_ms(self) -> int | None:
        """When the earliest live deadline is due."""
        heap = self._heap
        while heap and heap[0][2].action is None:
            heappop(heap)
        return heap[0][0] if heap else None

    def run_due(self, now: Now) -> None:
        """Fire everything due by `now`; what fires may set new deadlines, even due ones."""
        while self._heap and self._heap[0][0] <= now.monotonic_ms:
            deadline = heappop(self._heap)[2]
            action, deadline.action = deadline.action, None
            if action is not None:
                action(now)
