"""A bucket of tokens: filled at the rate of a quota, up to a burst; what is done takes tokens out.

Invariant  There are never more tokens than the burst: what the quota allows in all windows.
Invariant  A bucket begins full, and may go below empty by what one request takes.
"""

from __future__ import annotations

from tidelog.node.quotas.rate import Windows, whole_ms


class TokenBucket:
    """Of one client, or of many that share one quota."""

    __slots__ = ("_tokens", "_updated_ms", "full_at_ms", "windows")

    def __init__(self, windows: Windows) -> None:
        self.windows = windows
        self._tokens: float | None = None
        """None is full, whatever the quota."""
        self._updated_ms = 0
        self.full_at_ms = 0
        """When it is full again if nobody takes anything."""

    def tokens(self, limit: float, now_ms: int) -> float:
        """What is in it now."""
        burst = limit * self.windows.span_ms / 1000
        if self._tokens is None:
            self._tokens = burst
        else:
            gained = limit * (now_ms - self._updated_ms) / 1000
            self._tokens = min(burst, self._tokens + gained)
        self._updated_ms = now_ms
        return self._tokens

    def take(self, count: float, limit: float, now_ms: int) -> None:
        """Take tokens out, whether there are enough of them or not."""
        burst = limit * self.windows.span_ms / 1000
        self._tokens = min(burst, self.tokens(limit, now_ms) - count)
        self.full_at_ms = now_ms + whole_ms((burst - self._tokens) / limit * 1000) + 1

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """How long it takes until it is not below empty any more."""
        tokens = self.tokens(limit, now_ms)
        return whole_ms(-tokens / limit * 1000) if tokens < 0 else 0
