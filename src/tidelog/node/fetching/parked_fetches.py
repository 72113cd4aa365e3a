"""Fetches that wait until there is enough to read, or until their time is up.

Invariant  A parked fetch is answered once: by news, by its deadline, or never when its peer left.
Invariant  News are looked at when a tick ends, so that many appends cost one look.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.request import Request
from tidelog.node.fetching.fetch_sessions import FetchContext
from tidelog.protocol.fetch import FetchRequest

Retry: TypeAlias = Callable[["ParkedFetch", Now, bool], bool]


class ParkedFetch:
    """One fetch that waits."""

    __slots__ = ("_fetches", "_missing_bytes", "_woken", "context", "deadline", "fetch", "request")

    def __init__(
        self,
        fetches: ParkedFetches,
        request: Request,
        fetch: FetchRequest,
        context: FetchContext,
        missing_bytes: int,
        wait_ms: int,
    ) -> None:
        self._fetches = fetches
        self._missing_bytes = missing_bytes
        self._woken = False
        self.request = request
        self.fetch = fetch
        self.context = context
        self.deadline = fetches.deadlines.at(request.now.monotonic_ms + wait_ms, self._time_is_up)

    @property
    def is_waiting(self) -> bool:
        return self.context.parked is self

    def news(self, new_bytes: int) -> None:
        """Something moved; bytes count towards what is missing, anything else wakes at once."""
        self._missing_bytes -= new_bytes
        if not self._woken and (new_bytes == 0 or self._missing_bytes <= 0):
            self._woken = True
            self._fetches.woken.append(self)

    def look_again(self, now: Now) -> None:
        """Try to answer after news."""
        self._woken = False
        if self.is_waiting:
            self._fetches.retry(self, now, False)

    def hurry(self, now: Now) -> None:
        """Answer with what there is, if it still waits."""
        if self.is_waiting:
            self._fetches.retry(self, now, True)

    def cancel(self) -> None:
        """The peer left: wait for nothing any more."""
        self.deadline.cancel()
        if self.is_waiting:
            self.context.parked = None
        if not self.context.is_session:
            self.context.release()

    def _time_is_up(self, now: Now) -> None:
        self._fetches.retry(self, now, True)


class ParkedFetches:
    """All parked fetches of a node; `retry` re-reads one and says whether it was answered."""

    def __init__(self, deadlines: Deadlines, retry: Retry) -> None:
        self.deadlines = deadlines
        self.retry = retry
        self.woken: list[ParkedFetch] = []

    def tick_ended(self, now: Now) -> None:
        """Look again at every fetch that had news since the last tick."""
        woken, self.woken = self.woken, []
        for parked in woken:
            parked.look_again(now)
