"""One kind of quota of clients: what each does, measured, and how long it has to wait.

Invariant  Who shares a limit shares one measurement of it, which lasts when the limit changes.
Invariant  What is measured of clients that are gone is dropped: a measurement that is as good as a
           new one takes no room.
Invariant  There are at most `MEASURES_MAX` measurements of names that are not too long, whatever
           names clients give themselves; whoever is one too many shares one with the others.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Final, Generic, NamedTuple, TypeVar

from tidelog.controller.image_delta import QuotaOwner
from tidelog.node.quotas.client_limits import ClientLimits, Sharers
from tidelog.node.quotas.rate import Rate, Windows, throttle_ms
from tidelog.node.quotas.token_bucket import TokenBucket

CLEANED_ABOVE: Final = 1024
MEASURES_MAX: Final = 10_000
CLIENT_ID_MAX: Final = 255
"""What follows behind so many characters makes no other client of it."""

MeasureT = TypeVar("MeasureT")


class ThrottleCounts:
    """How often somebody had to wait, and for how long; numbers that only rise."""

    __slots__ = ("throttled", "time_ms")

    def __init__(self) -> None:
        self.throttled = 0
        self.time_ms = 0

    def add(self, time_ms: int) -> None:
        self.throttled += 1
        self.time_ms += time_ms


class _Bounded(NamedTuple, Generic[MeasureT]):
    measure: MeasureT
    limit: float


class ClientQuota(ABC, Generic[MeasureT]):
    """One kind of quota."""

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self.limits = ClientLimits({}, "")
        self.counts = ThrottleCounts()
        self._measures: dict[Sharers, MeasureT] = {}
        self._of_the_rest: MeasureT = self._begin()
        self._clients: dict[tuple[str, str], _Bounded[MeasureT] | None] = {}
        """What was found for each user and client id since the limits changed."""
        self._clean_above = CLEANED_ABOVE

    def change(self, quotas: Mapping[QuotaOwner, Mapping[str, float]], key: str) -> None:
        """Other limits count from now on."""
        self.limits = ClientLimits(quotas, key)
        self._clients.clear()
        if not self.limits:
            self._measures.clear()

    def bounded(self, user: str, client_id: str, now_ms: int) -> _Bounded[MeasureT] | None:
        """The measurement of a client and its limit; None for one without a quota."""
        client_id = client_id[:CLIENT_ID_MAX]
        try:
            return self._clients[user, client_id]
        except KeyError:
            pass
        self._drop_idle(now_ms)
        found = None
        matched = self.limits.of(user, client_id)
        if matched is not None:
            measure = self._measures.get(matched.sharers)
            if measure is None and len(self._measures) >= MEASURES_MAX:
                measure = self._of_the_rest
            elif measure is None:
                measure = self._measures[matched.sharers] = self._begin()
            found = _Bounded(measure, matched.limit)
        self._clients[user, client_id] = found
        return found

    def _drop_idle(self, now_ms: int) -> None:
        if len(self._clients) < self._clean_above:
            return
        self._clients.clear()
        self._measures = {
            sharers: measure
            for sharers, measure in self._measures.items()
            if not self._is_as_new(measure, now_ms)
        }
        self._clean_above = max(CLEANED_ABOVE, 2 * len(self._measures))

    @abstractmethod
    def _begin(self) -> MeasureT:
        """A measurement of somebody new."""

    @abstractmethod
    def _is_as_new(self, measure: MeasureT, now_ms: int) -> bool:
        """Whether a new one would measure the same from now on."""


class RateQuota(ClientQuota[Rate]):
    """So much in a second: bytes, or percents of the time of a node."""

    def __init__(self, windows: Windows, throttle_max_ms: int | None = None) -> None:
        super().__init__(windows)
        self._throttle_max_ms = throttle_max_ms

    def record(self, user: str, client_id: str, value: float, now_ms: int) -> int:
        """A client did so much; how long it has to wait for it."""
        bounded = self.bounded(user, client_id, now_ms)
        if bounded is None:
            return 0
        rate, limit = bounded
        rate.record(value, now_ms)
        time_ms = throttle_ms(rate.per_second(now_ms), limit, rate.window_ms(now_ms))
        return time_ms if self._throttle_max_ms is None else min(time_ms, self._throttle_max_ms)

    def note(self, user: str, client_id: str, value: float, now_ms: int) -> None:
        """A client did so much, for which it waits later; or did not, if it is negative."""
        bounded = self.bounded(user, client_id, now_ms)
        if bounded is not None:
            bounded.measure.record(value, now_ms)

    def most_in_windows(self, user: str, client_id: str, now_ms: int) -> float | None:
        """More than this at once is throttled, whatever was before; None when nothing is."""
        bounded = self.bounded(user, client_id, now_ms)
        if bounded is None:
            return None
        return bounded.limit * (self.windows.number - 1) * self.windows.size_ms / 1000

    def _begin(self) -> Rate:
        return Rate(self.windows)

    def _is_as_new(self, measure: Rate, now_ms: int) -> bool:
        return measure.is_idle(now_ms)


class TokenQuota(ClientQuota[TokenBucket]):
    """So much in a second, with bursts: changes of the controller."""

    def _begin(self) -> TokenBucket:
        return TokenBucket(self.windows)

    def _is_as_new(self, measure: TokenBucket, now_ms: int) -> bool:
        return now_ms >= measure.full_at_ms
