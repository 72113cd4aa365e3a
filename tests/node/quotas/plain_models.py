"""Kafka's Rate and token bucket once more, written as plainly as can be: a list of all that ever
happened, looked at anew for each question."""

from __future__ import annotations

from typing import NamedTuple


class Recorded(NamedTuple):
    """One value and when it was recorded."""

    at_ms: int
    value: float


class PlainRate:
    """Keeps samples as lists of what was recorded in them, the newest last."""

    def __init__(self, count: int, size_ms: int) -> None:
        self.count = count
        self.size_ms = size_ms
        self.samples: list[tuple[int, list[Recorded]]] = []
        """Beginning of each sample, and what is in it; a sample without anything is as new."""

    def _last_ms(self, start_ms: int, content: list[Recorded]) -> int:
        return content[-1].at_ms if content else start_ms

    def _forget_old(self, now_ms: int) -> None:
        span_ms = self.count * self.size_ms
        self.samples = [
            (now_ms, [])
            if now_ms - self._last_ms(start_ms, content) >= span_ms
            else (start_ms, content)
            for start_ms, content in self.samples
        ]

    def record(self, value: float, now_ms: int) -> None:
        if not self.samples:
            self.samples.append((now_ms, []))
        start_ms, content = self.samples[-1]
        if now_ms - start_ms >= self.size_ms:
            content = []
            self.samples = [*self.samples[-self.count :], (now_ms, content)]
        content.append(Recorded(now_ms, value))

    def window_ms(self, now_ms: int) -> int:
        self._forget_old(now_ms)
        begun_ms = min([start_ms for start_ms, _ in self.samples], default=now_ms)
        elapsed_ms = now_ms - begun_ms
        full_windows = elapsed_ms // self.size_ms
        while full_windows < self.count - 1:
            full_windows += 1
            elapsed_ms += self.size_ms
        return max(1, elapsed_ms)

    def total(self, now_ms: int) -> float:
        self._forget_old(now_ms)
        return sum(each.value for _, content in self.samples for each in content)

    def per_second(self, now_ms: int) -> float:
        return self.total(now_ms) * 1000 / self.window_ms(now_ms)

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """The time after which the same total, over a longer window, would be the limit."""
        if self.per_second(now_ms) <= limit:
            return 0
        return round(self.total(now_ms) * 1000 / limit - self.window_ms(now_ms))


class PlainBucket:
    """Simulates every millisecond since the beginning."""

    def __init__(self, burst_ms: int, limit: float) -> None:
        self.burst = limit * burst_ms / 1000
        self.limit = limit
        self.tokens = self.burst
        self.now_ms = 0

    def wait_until(self, now_ms: int) -> None:
        while self.now_ms < now_ms:
            self.now_ms += 1
            self.tokens = min(self.burst, self.tokens + self.limit / 1000)

    def take(self, count: float, now_ms: int) -> None:
        self.wait_until(now_ms)
        self.tokens -= count
