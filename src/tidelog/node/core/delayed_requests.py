"""Requests that are answered a moment later, because what they ask about is being decided.

Whoever asks for the leader of a partition whose broker has just gone, or speaks of a leader epoch
that this broker has not heard of yet, could be told so at once. Clients then wait on their own,
and they wait long: librdkafka looks again after a second, or half a second. The decision itself is
a matter of milliseconds, so the answer waits for it instead.

Invariant  A delayed request is answered once: when there is nothing left to wait for, or when its
           time is up, with what is true then.
Invariant  Nothing is delayed for longer than a second (`LONGEST_MS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines
from tidelog.node.core.promise import Promise

LONGEST_MS: Final = 1_000


class _Delayed(NamedTuple):
    must_wait: Callable[[], bool]
    decided: Promise[None]


class DelayedRequests:
    """All delayed requests of a node."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._delayed: dict[Deadline, _Delayed] = {}

    def delay(self, now: Now, must_wait: Callable[[], bool], within_ms: int) -> Promise[None]:
        """Settled once there is nothing to wait for, or when the time is up."""
        due_ms = now.monotonic_ms + min(within_ms, LONGEST_MS)
        deadline = self._deadlines.at(due_ms, lambda _: self._settle(deadline))
        delayed = self._delayed[deadline] = _Delayed(must_wait, Promise())
        return delayed.decided

    def look_again(self) -> None:
        """The metadata changed, or a broker answered."""
        for deadline, delayed in tuple(self._delayed.items()):
            if deadline in self._delayed and not delayed.must_wait():
                deadline.cancel()
                self._settle(deadline)

    def _settle(self, deadline: Deadline) -> None:
        self._delayed.pop(deadline).decided.settle(None)
