from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import DiskError, InvariantBroken
from tidelog.model.ids import TopicPartition
from tidelog.node.core.effects import Announce, Effect, Lane, OpenListeners, RunJob, Send, Stopped
from tidelog.node.core.inputs import (
    ConnectionOpened,
    Input,
    JobFinished,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.observe.events import SegmentDeleted
from tidelog.shell.clock import read_clock

if TYPE_CHECKING:
    from tests.shell.conftest import Shell


def finished(shell: Shell) -> list[tuple[int, str | None]]:
    return [
        (happened.job_id, happened.error)
        for happened in shell.node.inputs
        if isinstance(happened, JobFinished)
    ]


def test_the_node_hears_who_connected_and_to_what(shell: Shell) -> None:
    async def scenario() -> None:
        await shell.connect()
        await shell.until(lambda: bool(shell.node.inputs))

    shell.run(scenario())
    opened = shell.node.inputs[0]
    assert isinstance(opened, ConnectionOpened)
    assert opened[1:] == (1, "PLAIN", "127.0.0.1", None)


def test_a_tick_with_inputs_ends_once_and_has_one_time(shell: Shell) -> None:
    times: list[int] = []

    def note(connection: int, frame: memoryview) -> list[Effect]:
        times.append(shell.driver.now.monotonic_ms)
        return [Send(connection, [bytes(frame)])]

    shell.node.on_frame = note

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(b"\0\0\0\1x" * 20)
        await client.receive(100)
        await shell.until(lambda: shell.node.kinds()[-1] == "TickEnded")

    shell.run(scenario())
    kinds = shell.node.kinds()
    assert kinds[0] == "ConnectionOpened"
    assert 1 <= kinds.count("TickEnded") <= 3
    ends = {
        happened.now.monotonic_ms
        for happened in shell.node.inputs
        if isinstance(happened, TickEnded)
    }
    assert set(times) <= ends


def test_answers_released_at_the_end_of_a_tick_are_written(shell: Shell) -> None:
    waiting: list[int] = []

    def park(connection: int, frame: memoryview) -> list[Effect]:
        waiting.append(connection)
        return []

    def wake(happened: Input) -> list[Effect]:
        if not isinstance(happened, TickEnded) or len(waiting) < 2:
            return []
        return [Send(connection, [b"now"]) for connection in waiting]

    shell.node.on_frame = park
    shell.node.on_input = wake

    async def scenario() -> None:
        first, second = await shell.connect(), await shell.connect()
        await first.send_frame(b"wait")
        await second.send_frame(b"wake both")
        assert await first.receive_frame() == b"now"
        assert await second.receive_frame() == b"now"

    shell.run(scenario())


def test_time_passes_at_the_deadline_and_not_before(shell: Shell) -> None:
    start = read_clock().monotonic_ms
    shell.node.next_deadline_ms = start + 60_000
    passed: list[int] = []

    def note(happened: Input) -> list[Effect]:
        if isinstance(happened, StopRequested):
            shell.node.next_deadline_ms = start + 20
        if isinstance(happened, TimePassed):
            passed.append(happened.now.monotonic_ms)
            if happened.now.monotonic_ms >= start + 20:
                shell.node.next_deadline_ms = None
        return []

    shell.node.on_input = note

    async def scenario() -> None:
        shell.driver.begin([])
        await shell.until(lambda: "TickEnded" in shell.node.kinds())
        shell.driver.request_stop("only to have an earlier deadline set")
        await shell.until(lambda: shell.node.next_deadline_ms is None)

    shell.run(scenario())
    assert start + 20 <= passed[-1] < start + 60_000


def test_jobs_run_in_order_in_another_thread_and_report(shell: Shell) -> None:
    ran: list[tuple[int, str]] = []

    def job(number: int) -> RunJob:
        def work() -> None:
            ran.append((number, threading.current_thread().name))

        return RunJob(number, work, Lane.FLUSHES)

    async def scenario() -> None:
        shell.driver.begin([job(number) for number in range(5)])
        await shell.until(lambda: len(finished(shell)) == 5)

    shell.run(scenario())
    assert [number for number, _ in ran] == list(range(5))
    assert all(name.startswith("tidelog-flushes") for _, name in ran)
    assert finished(shell) == [(number, None) for number in range(5)]


def test_a_failing_job_is_reported_in_words(shell: Shell) -> None:
    def fail() -> None:
        raise DiskError("cannot sync /d/x: the disk failed")

    async def scenario() -> None:
        shell.driver.begin([RunJob(9, fail, Lane.FLUSHES)])
        await shell.until(lambda: bool(finished(shell)))

    shell.run(scenario())
    assert finished(shell) == [(9, "cannot sync /d/x: the disk failed")]


def test_a_job_that_breaks_an_invariant_surfaces_on_the_loop(shell: Shell) -> None:
    def fail() -> None:
        raise InvariantBroken("impossible")

    async def scenario() -> None:
        shell.driver.begin([RunJob(9, fail, Lane.FLUSHES)])
        await shell.until(lambda: bool(shell.failures))

    with pytest.raises(InvariantBroken, match="impossible"):
        shell.run(scenario())
    assert finished(shell) == []


def test_an_exception_in_a_step_reaches_the_loops_handler(shell: Shell) -> None:
    def fail(connection: int, frame: memoryview) -> list[Effect]:
        raise InvariantBroken("high watermark went back")

    shell.node.on_frame = fail

    async def scenario() -> None:
        client = await shell.connect()
        await client.send_frame(b"x")
        await shell.until(lambda: bool(shell.failures))

    with pytest.raises(InvariantBroken, match="went back"):
        shell.run(scenario())


def test_events_listeners_and_the_end_reach_the_world(shell: Shell) -> None:
    deleted = SegmentDeleted(
        partition=TopicPartition("orders", 0),
        base_offset=7,
        size_bytes=100,
        start_offset=9,
        cause="retention.ms",
    )

    shell.node.on_input = lambda happened: (
        [Stopped(None)] if isinstance(happened, StopRequested) else []
    )

    async def scenario() -> None:
        shell.driver.begin([Announce(deleted), OpenListeners(("PLAIN", "CONTROLLER"))])
        shell.driver.request_stop("SIGTERM")
        shell.driver.request_stop("again")

    shell.run(scenario())
    assert shell.events == [deleted]
    assert shell.opened == ["PLAIN", "CONTROLLER"]
    assert shell.stopped == [None]
    assert shell.node.kinds() == ["StopRequested"]
