"""What only the process knows of itself: memory, time, descriptors, how late its loop is."""

from __future__ import annotations

import asyncio
import os
import resource
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from tidelog.observe.metrics import Metric, MetricFamily, counter, gauge, one

_LOOK_S: Final = 0.5
_KEPT_S: Final = 60.0

LOOP_DELAY: Final = gauge(
    "tidelog_loop_delay_seconds_max",
    "The longest that anything had to wait for the event loop in the last minute.",
)
CONNECTIONS: Final = gauge(
    "kafka_network_socketserver_connections", "Open connections of a listener.", "listener"
)
HTTP_CONNECTIONS: Final = gauge("tidelog_http_connections", "Open connections of http.listener.")
WATCHERS: Final = gauge("tidelog_http_watchers", "Those who look at the node live.")
EVENTS: Final = counter("tidelog_events_total", "Events written, by kind.", "event")
RESIDENT: Final = gauge("process_resident_memory_bytes", "Resident memory.")
CPU: Final = counter("process_cpu_seconds_total", "User and system time.")
OPEN_FILES: Final = gauge("process_open_fds", "Open file descriptors.")
STARTED: Final = gauge("process_start_time_seconds", "When the process started, since 1970.")

PROCESS_METRICS: Final = tuple(
    value for value in tuple(globals().values()) if isinstance(value, MetricFamily)
)


class LoopDelay:
    """Asks the loop for a call twice a second and sees how late it comes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._delays: deque[float] = deque([0.0], maxlen=int(_KEPT_S / _LOOK_S))
        self._due = 0.0
        self._timer: asyncio.TimerHandle | None = None

    @property
    def longest_s(self) -> float:
        return max(self._delays)

    def start(self) -> None:
        self._due = self._loop.time() + _LOOK_S
        self._timer = self._loop.call_at(self._due, self._called)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _called(self) -> None:
        self._delays.append(max(0.0, self._loop.time() - self._due))
        self.start()


def process_metrics(
    delay: LoopDelay,
    connections: Mapping[str, int],
    events: Mapping[str, int],
    started_s: float,
) -> Iterator[Metric]:
    """All of them but those of the HTTP listener itself."""
    yield one(LOOP_DELAY, round(delay.longest_s, 6))
    yield Metric(CONNECTIONS, [((name,), count) for name, count in sorted(connections.items())])
    yield Metric(EVENTS, [((kind,), count) for kind, count in sorted(events.items())])
    yield one(RESIDENT, resident_bytes())
    times = os.times()
    yield one(CPU, round(times.user + times.system, 2))
    with suppress(OSError):
        yield one(OPEN_FILES, len(os.listdir("/proc/self/fd")))
    yield one(STARTED, started_s)


def resident_bytes() -> int:
    """Memory of this process now; its largest so far where the system does not tell."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
