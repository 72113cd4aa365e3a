"""How fast something went lately: sums over the last few windows, as Kafka measures its quotas.

A measurement is a sum over samples of one window each. A sample is dropped once nothing was
recorded in it for as long as all windows last, so that the oldest one may begin before them.

Invariant  The rate of a client is taken over at least all windows but one, whether they have passed
           or not: a burst after a rest is spread over them.
Invariant  Time is that of the monotonic clock, and never goes back.
"""

from __future__ import annotations

from math import floor
from typing import NamedTuple

from tidelog.model.settings.setting import MAX_INT


class Windows(NamedTuple):
    """How many samples are kept, and how long each lasts."""

    number: int
    size_ms: int

    @property
    def span_ms(self) -> int:
        """All of them."""
        return self.number * self.size_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "total")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.total = 0.0


class Rate:
    """Of one client, or of many that share one quota."""

    __slots__ = ("_current", "_samples", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """So much more; what was recorded too much is taken back by a negative value."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self.windows.size_ms:
            sample = self._next_sample(now_ms)
        sample.total += value
        sample.last_ms = now_ms

    def per_second(self, now_ms: int) -> float:
        """The rate, up to now."""
        self._drop_old(now_ms)
        total = sum(sample.total for sample in self._samples)
        return total / (self.window_ms(now_ms) / 1000)

    def window_ms(self, now_ms: int) -> int:
        """The time over which the rate is taken."""
        elapsed_ms = now_ms - self._oldest_ms(now_ms)
        missing = self.windows.number - 1 - elapsed_ms // self.windows.size_ms
        if missing > 0:
            elapsed_ms += missing * self.windows.size_ms
        return max(elapsed_ms, 1)

    def is_idle(self, now_ms: int) -> bool:
        """Whether it is as if nothing had ever been recorded."""
        return all(now_ms - sample.last_ms >= self.windows.span_ms for sample in self._samples)

    def _next_sample(self, now_ms: int) -> _Sample:
        # One more than there are windows, for the one that began before them.
        self._current = (self._current + 1) % (self.windows.number + 1)
        if self._current == len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def _oldest_ms(self, now_ms: int) -> int:
        self._drop_old(now_ms)
        return min((sample.start_ms for sample in self._samples), default=now_ms)

    def _drop_old(self, now_ms: int) -> None:
        for sample in self._samples:
            if now_ms - sample.last_ms >= self.windows.span_ms:
                sample.reset(now_ms)


class SimpleRate(Rate):
    """The rate over the time that has passed, and over one window at least: of replication."""

    __slots__ = ()

    def window_ms(self, now_ms: int) -> int:
        return max(now_ms - self._oldest_ms(now_ms), self.windows.size_ms)


def throttle_ms(rate: float, limit: float, window_ms: int) -> int:
    """How long nothing must come for the rate to be the limit; 0 while it is not above."""
    return 0 if rate <= limit else whole_ms((rate - limit) / limit * window_ms)


def whole_ms(time_ms: float) -> int:
    """A time as answers can tell it, however long it is."""
    return floor(min(time_ms, MAX_INT) + 0.5)
