"""How fast connections may be made: to this node, and from each address.

Invariant  A listener that is over the rate of the node accepts nobody for a while; it loses nobody.
Invariant  An address over its own rate is turned away after a while, and what it tries does not
           count for anybody else.
Invariant  Nobody waits longer than one window.
"""

from __future__ import annotations

from typing import Final

from tidelog.node.quotas.rate import Rate, Windows, throttle_ms

CLEANED_ABOVE: Final = 1024


class ConnectionRates:
    """Of one node."""

    def __init__(self, windows: Windows) -> None:
        self._windows = windows
        self._of_node = Rate(windows)
        self._of_hosts: dict[str, Rate] = {}
        self._clean_above = CLEANED_ABOVE

    def of_node(self, limit: int, now_ms: int) -> int:
        """One more connection; how long no other is to be accepted."""
        self._of_node.record(1, now_ms)
        return self._wait_ms(self._of_node, limit, now_ms)

    def of_host(self, host: str, limit: int, now_ms: int) -> int:
        """An address wants one more; how long it takes until it is turned away, or 0 if it is not.

        One that is turned away counts neither for its address nor for the node.
        """
        rate = self._of_hosts.get(host)
        if rate is None:
            self._drop_idle(now_ms)
            rate = self._of_hosts[host] = Rate(self._windows)
        rate.record(1, now_ms)
        wait_ms = self._wait_ms(rate, limit, now_ms)
        if wait_ms > 0:
            rate.record(-1, now_ms)
            self._of_node.record(-1, now_ms)
        return wait_ms

    def _wait_ms(self, rate: Rate, limit: int, now_ms: int) -> int:
        if limit <= 0:
            return self._windows.size_ms
        wait_ms = throttle_ms(rate.per_second(now_ms), limit, rate.window_ms(now_ms))
        return min(wait_ms, self._windows.size_ms)

    def _drop_idle(self, now_ms: int) -> None:
        if len(self._of_hosts) < self._clean_above:
            return
        self._of_hosts = {
            host: rate for host, rate in self._of_hosts.items() if not rate.is_idle(now_ms)
        }
        self._clean_above = max(CLEANED_ABOVE, 2 * len(self._of_hosts))
