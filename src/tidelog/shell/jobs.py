"""Blocking work, away from the loop, one piece after the other in each lane.

Invariant  Jobs of a lane run in the order in which they were asked for, each after the one before
           it ended; lanes do not wait for each other.
Invariant  A job that fails because the world does (`TidelogError`) is reported in words; any
           other failure is a broken promise of our own and surfaces on the loop, where it stops
           the node.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final

from tidelog.model.errors import TidelogError
from tidelog.node.core.effects import Lane

LOOP_WAITS_MOST_S: Final = 0.0005
"""A job that computes, as cleaning does, gives way to the loop after this long."""


class Jobs:
    """A worker thread for each lane, and its way back to the loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, finished: Callable[[int, str | None], None]
    ) -> None:
        self._loop = loop
        self._finished = finished
        self._workers = {
            lane: ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"tidelog-{lane.value}")
            for lane in Lane
        }
        sys.setswitchinterval(LOOP_WAITS_MOST_S)
        self._closed = False

    def run(self, job_id: int, work: Callable[[], None], lane: Lane) -> None:
        """Have `work` done; `finished` hears of it on the loop."""

        def report(done: Future[None]) -> None:
            if not self._closed:
                self._loop.call_soon_threadsafe(self._settle, job_id, done.exception())

        self._workers[lane].submit(work).add_done_callback(report)

    def close(self) -> None:
        """Wait for the jobs that are running; the others are dropped and nothing is reported."""
        self._closed = True
        for worker in self._workers.values():
            worker.shutdown(wait=True, cancel_futures=True)

    def _settle(self, job_id: int, failure: BaseException | None) -> None:
        if failure is None:
            self._finished(job_id, None)
        elif isinstance(failure, TidelogError):
            self._finished(job_id, str(failure))
        else:
            raise failure
