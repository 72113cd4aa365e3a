"""The timers of one coordinator: what it has to decide later, on the node's deadlines."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeAlias, TypeVar

from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines

T = TypeVar("T")

AGAIN_MS: Final = 500
Command: TypeAlias = Callable[[Now], CoordinatorResult[T, None]]


class ShardTimers(Generic[T]):
    """At most one timer for each key."""

    def __init__(self, deadlines: Deadlines, run: Callable[[Now, Command[T]], bool]) -> None:
        """`run` carries out what a timer decides, and says whether it could be written."""
        self._deadlines = deadlines
        self._run = run
        self._set: dict[Hashable, Deadline] = {}

    def set(self, key: Hashable, due_ms: int, command: Command[T]) -> None:
        """Run `command` once monotonic time has reached `due_ms`; replaces the key's old one."""
        self.cancel(key)

        def fire(now: Now) -> None:
            del self._set[key]
            if not self._run(now, command):
                self.set(key, now.monotonic_ms + AGAIN_MS, command)

        self._set[key] = self._deadlines.at(due_ms, fire)

    def cancel(self, key: Hashable) -> None:
        """Forget it; harmless when there is none."""
        deadline = self._set.pop(key, None)
        if deadline is not None:
            deadline.cancel()

    def cancel_all(self) -> None:
        """The coordinator is gone."""
        for deadline in self._set.values():
            deadline.cancel()
        self._set.clear()
