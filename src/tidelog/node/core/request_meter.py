"""How many requests of each API there were, and how long each took to be answered.

Invariant  Time is that of the steps: what is answered in the step in which it arrived took none.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from tidelog.model.time import Now
from tidelog.node.core.connections import Connection
from tidelog.node.core.runtime import Runtime
from tidelog.observe.counters import RequestTimes
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.frame import RequestHeader


class RequestTimeQuota(Protocol):
    """Bounds the time that a node spends on the requests of each client."""

    def begins(self, connection: Connection, header: RequestHeader) -> None:
        """A request is taken up."""
        ...

    def throttle(self, connection: Connection, api_key: ApiKey, client_id: str | None) -> int:
        """A request is answered; how long its client has to wait."""
        ...


class RequestMeter:
    """One for each node."""

    __slots__ = ("_runtime", "time_quota", "times")

    def __init__(self, runtime: Runtime, apis: Iterable[ApiKey]) -> None:
        self._runtime = runtime
        self.times = {key: RequestTimes() for key in apis}
        self.time_quota: RequestTimeQuota | None = None
        """While somebody's time is bounded."""

    def answered(self, key: ApiKey, arrived: Now) -> None:
        """A request that was parked has its answer."""
        self.times[key].waited(self._runtime.now.monotonic_ms - arrived.monotonic_ms)
