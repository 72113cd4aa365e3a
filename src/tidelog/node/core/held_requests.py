"""Requests that are answered a moment later, because what they ask about is being decided.

Whoever asks for the leader of a partition whose broker has just gone, or speaks of a leader epoch
that this broker has not heard of yet, could be told so at once. Clients then wait on their own,
and they wait long: librdkafka looks again after a second, or half a second. The decision itself is
a matter of milliseconds, so the answer waits for it instead.

Invariant  A held request is answered once: when there is nothing left to wait for, or when its time
           is up, with what is true then.
Invariant  Nothing is held for longer than a second (`LONGEST_MS`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines
from tidelog.node.core.request import Answer, Later, Request

LONGEST_MS: Final = 1_000


class HeldRequests:
    """All held requests of a node."""

    def __init__(self, deadlines: Deadlines) -> None:
        self._deadlines = deadlines
        self._held: dict[Deadline, Callable[[], bool]] = {}

    def hold(
        self,
        request: Request[object],
        must_wait: Callable[[], bool],
        answer: Callable[[], Answer],
        within_ms: int,
    ) -> Later:
        """Answer once there is nothing to wait for, or when the time is up."""
        later = request.park()

        def settle(_: Now) -> None:
            self._held.pop(deadline, None)
            request.answer(answer())

        due_ms = request.now.monotonic_ms + min(within_ms, LONGEST_MS)
        deadline = self._deadlines.at(due_ms, settle)
        self._held[deadline] = must_wait
        return later

    def look_again(self, now: Now) -> None:
        """The metadata changed, or a broker answered."""
        for deadline, must_wait in tuple(self._held.items()):
            settle = deadline.action
            if settle is not None and not must_wait():
                deadline.cancel()
                settle(now)
