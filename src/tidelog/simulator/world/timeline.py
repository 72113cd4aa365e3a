"""Virtual time: what is to happen, in the order in which it happens.

Invariant  Things due at the same microsecond happen in the order in which they were planned.
Invariant  Time never goes back, and stands still while something happens.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TypeAlias

Action: TypeAlias = Callable[..., None]


class Timeline:
    """The queue of everything that has not happened yet."""

    __slots__ = ("_order", "_queue", "happened", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self.happened = 0
        self._order = 0
        self._queue: list[tuple[int, int, Action, tuple[object, ...]]] = []

    @property
    def now_ms(self) -> int:
        return self.now_us // 1000

    @property
    def is_empty(self) -> bool:
        return not self._queue

    def at(self, due_us: int, action: Action, *arguments: object) -> None:
        """Do something at a moment, or now if that moment is past."""
        self._order += 1
        heappush(self._queue, (max(due_us, self.now_us), self._order, action, arguments))

    def run_until(self, end_us: int, most: int) -> None:
        """Let everything happen that is due by then, up to `most` things in all."""
        queue = self._queue
        while queue and queue[0][0] <= end_us and self.happened < most:
            self.now_us, _, action, arguments = heappop(queue)
            self.happened += 1
            action(*arguments)
        if self.happened < most:
            self.now_us = max(self.now_us, end_us)
