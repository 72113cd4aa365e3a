"""How many requests of each API there were, and how long each took to be answered.

Invariant  Time is that of the steps: what is answered in the step in which it arrived took none.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model.time import Now
from tidelog.node.core.runtime import Runtime
from tidelog.observe.counters import RequestTimes
from tidelog.protocol.apis import ApiKey


class RequestMeter:
    """One for each node."""

    __slots__ = ("_runtime", "times")

    def __init__(self, runtime: Runtime, apis: Iterable[ApiKey]) -> None:
        self._runtime = runtime
        self.times = {key: RequestTimes() for key in apis}

    def answered(self, key: ApiKey, arrived: Now) -> None:
        """A request that was parked has its answer."""
        self.times[key].waited(self._runtime.now.monotonic_ms - arrived.monotonic_ms)
