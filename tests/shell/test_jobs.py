"""Blocking work beside the loop."""

from __future__ import annotations

import asyncio
import sys
import threading

from tidelog.model.errors import DiskError
from tidelog.node.core.effects import Lane
from tidelog.shell.jobs import LOOP_WAITS_MOST_S, Jobs


def test_jobs_run_in_their_order_and_each_reports_once() -> None:
    async def run() -> list[tuple[int, str | None]]:
        heard: list[tuple[int, str | None]] = []
        all_heard = asyncio.Event()

        def finished(job_id: int, error: str | None) -> None:
            heard.append((job_id, error))
            if len(heard) == 3:
                all_heard.set()

        def fails() -> None:
            raise DiskError("no space")

        jobs = Jobs(asyncio.get_running_loop(), finished)
        jobs.run(1, lambda: None, Lane.FLUSHES)
        jobs.run(2, fails, Lane.FLUSHES)
        jobs.run(3, lambda: None, Lane.FLUSHES)
        await asyncio.wait_for(all_heard.wait(), 20)
        jobs.close()
        return heard

    assert asyncio.run(run()) == [(1, None), (2, "no space"), (3, None)]


def test_a_lane_does_not_wait_for_another_one() -> None:
    async def run() -> list[int]:
        heard: list[int] = []
        is_synced, is_over = asyncio.Event(), asyncio.Event()
        release = threading.Event()

        def finished(job_id: int, _error: str | None) -> None:
            heard.append(job_id)
            (is_synced if job_id == 4 else is_over).set()

        jobs = Jobs(asyncio.get_running_loop(), finished)
        slow = [Lane.CHECKPOINTS, Lane.FLUSHES, Lane.LONG]
        for job_id, lane in enumerate(slow, 1):
            jobs.run(job_id, lambda: assert_true(release.wait(20)), lane)
        jobs.run(4, lambda: None, Lane.QUORUM)
        await asyncio.wait_for(is_synced.wait(), 20)
        before = heard[:]
        release.set()
        await asyncio.wait_for(is_over.wait(), 20)
        jobs.close()
        return before

    assert asyncio.run(run()) == [4]


def assert_true(value: bool) -> None:
    assert value


def test_a_job_that_computes_gives_way_to_the_loop_soon() -> None:
    async def run() -> float:
        jobs = Jobs(asyncio.get_running_loop(), lambda job_id, error: None)
        jobs.close()
        return sys.getswitchinterval()

    before = sys.getswitchinterval()
    try:
        assert asyncio.run(run()) <= LOOP_WAITS_MOST_S + 1e-6
    finally:
        sys.setswitchinterval(before)
