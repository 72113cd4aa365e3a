from __future__ import annotations

import asyncio
import socket
import tracemalloc
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tidelog.node.core.effects import (
    Close,
    Effect,
    MeasureRequests,
    PauseReading,
    ResumeReading,
    Send,
)
from tidelog.node.core.inputs import RequestTook
from tidelog.observe.events import ConnectionDropped, ConnectionRefused
from tidelog.shell.connection import FRAMES_PER_TURN, STOP_READING_ABOVE
from tidelog.shell.effects import ConnectionLimits
from tidelog.shell.listener import SocketOptions
from tidelog.shell.slabs import SLAB_SIZE

if TYPE_CHECKING:
    from tests.shell.conftest import Shell


def framed(*bodies: bytes) -> bytes:
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def test_a_frame_is_answered(shell: Shell) -> None:
    async def scenario() -> None:
        client = await shell.connect()
        await client.send_frame(b"hello")
        assert await client.receive_frame() == b"hello"

    shell.run(scenario())


def test_pipelined_frames_are_answered_in_order(shell: Shell) -> None:
    bodies = [b"request %d" % number for number in range(10 * FRAMES_PER_TURN)]

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(framed(*bodies))
        for body in bodies:
            assert await client.receive_frame() == body

    shell.run(scenario())


def test_a_frame_may_arrive_byte_by_byte(shell: Shell) -> None:
    sent = framed(b"slowly", b"but surely")
    handled = 0

    def count(connection: int, frame: memoryview) -> list[Effect]:
        nonlocal handled
        handled += 4 + len(frame)
        return [Send(connection, [bytes(frame)])]

    shell.node.on_frame = count

    async def scenario() -> None:
        client = await shell.connect()
        for position in range(len(sent)):
            await client.send(sent[position : position + 1])
            while handled + shell.driver.pending_bytes <= position:
                await asyncio.sleep(0)
        assert await client.receive_frame() == b"slowly"
        assert await client.receive_frame() == b"but surely"

    shell.run(scenario())


@pytest.mark.parametrize("size", [SLAB_SIZE - 4, SLAB_SIZE - 3, 3 * SLAB_SIZE, 20_000_000])
def test_large_frames_arrive_whole(shell: Shell, size: int) -> None:
    body = bytes(range(251)) * (size // 251 + 1)
    frames = [body[:size], b"small", body[: size // 2], body[:200_000]]
    seen: list[bytes] = []

    def keep(connection: int, frame: memoryview) -> list[Effect]:
        seen.append(bytes(frame))
        return [Send(connection, [b"ok"])]

    shell.node.on_frame = keep

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(framed(*frames))
        for _ in frames:
            assert await client.receive_frame() == b"ok"

    shell.run(scenario())
    assert seen == frames


def test_a_frame_is_writable_in_place(shell: Shell) -> None:
    def patch(connection: int, frame: memoryview) -> list[Effect]:
        frame[0:3] = b"new"
        return [Send(connection, [bytes(frame)])]

    shell.node.on_frame = patch

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(framed(b"old one", b"old two"))
        assert await client.receive_frame() == b"new one"
        assert await client.receive_frame() == b"new two"

    shell.run(scenario())


@pytest.mark.parametrize("length", [-1, 0, 104_857_601, 2**31 - 1, -(2**31)])
def test_a_forbidden_length_closes_the_connection_after_earlier_answers(
    shell: Shell, length: int
) -> None:
    async def scenario() -> None:
        good = await shell.connect()
        bad = await shell.connect()
        await bad.send(framed(b"fine") + length.to_bytes(4, "big", signed=True) + b"rest")
        assert await bad.receive_frame() == b"fine"
        assert await bad.is_closed()
        await good.send_frame(b"undisturbed")
        assert await good.receive_frame() == b"undisturbed"

    shell.run(scenario())
    dropped = [event for event in shell.events if isinstance(event, ConnectionDropped)]
    assert len(dropped) == 1
    assert str(length) in dropped[0].cause
    assert len(shell.node.closings()) == 1


def test_a_claimed_length_allocates_nothing(shell: Shell) -> None:
    async def scenario() -> None:
        first = await shell.connect()
        await first.send_frame(b"warm")
        await first.receive_frame()
        tracemalloc.start()
        for _ in range(50):
            client = await shell.connect()
            await client.send((100_000_000).to_bytes(4, "big") + b"x" * 1000)
        await shell.until(lambda: shell.driver.pending_bytes == 50 * 1004)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2 * SLAB_SIZE

    shell.run(scenario())


def test_reading_stops_while_answers_are_not_taken(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(options=SocketOptions(send_buffer_bytes=65536))
    answer = b"x" * 200_000
    shell.node.on_frame = lambda connection, _: [Send(connection, [answer])]
    requests = 400

    async def scenario() -> None:
        lazy = await shell.connect(receive_buffer=65536)
        other = await shell.connect()
        await lazy.send(framed(*[b"more"] * requests))
        await shell.until(lambda: shell.driver.queued_bytes > STOP_READING_ABOVE)
        handled = shell.node.frames
        await other.send_frame(b"me, too")
        assert len(await other.receive_frame()) == len(answer)
        assert shell.node.frames == handled + 1
        assert shell.driver.queued_bytes <= STOP_READING_ABOVE + 2 * len(answer)
        for _ in range(requests):
            assert len(await lazy.receive_frame()) == len(answer)

    shell.run(scenario())
    assert shell.node.frames == requests + 1


def test_a_paused_connection_goes_on_where_it_was(shell: Shell) -> None:
    def pause_and_resume(connection: int, frame: memoryview) -> list[Effect]:
        answer: list[Effect] = [Send(connection, [bytes(frame)])]
        match bytes(frame):
            case b"3":
                return [*answer, PauseReading(connection)]
            case b"resume the first":
                return [ResumeReading(1), *answer]
            case _:
                return answer

    shell.node.on_frame = pause_and_resume

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(framed(*[b"%d" % number for number in range(6)]))
        for number in range(4):
            assert await client.receive_frame() == b"%d" % number
        other = await shell.connect()
        await other.send_frame(b"hello")
        assert await other.receive_frame() == b"hello"
        assert shell.node.frames == 5
        await other.send_frame(b"resume the first")
        assert await other.receive_frame() == b"resume the first"
        assert await client.receive_frame() == b"4"
        assert await client.receive_frame() == b"5"

    shell.run(scenario())


def test_a_closed_connection_has_sent_its_last_answer(shell: Shell) -> None:
    last = b"y" * 3_000_000
    shell.node.on_frame = lambda connection, _: [
        Send(connection, [last]),
        Close(connection, "enough"),
        Send(connection, [b"never"]),
    ]

    async def scenario() -> None:
        client = await shell.connect()
        await client.send(framed(b"one", b"two", b"three"))
        assert await client.receive_frame() == last
        assert await client.is_closed()
        await shell.until(lambda: shell.driver.connection_count == 0)

    shell.run(scenario())
    assert [closing.reason for closing in shell.node.closings()] == ["enough"]
    assert shell.node.frames == 1


def test_unread_requests_do_not_turn_the_end_into_a_reset(shell: Shell) -> None:
    last = b"y" * 8_000_000
    shell.node.on_frame = lambda connection, _: [Send(connection, [last]), Close(connection, "end")]

    async def scenario() -> None:
        client = await shell.connect(receive_buffer=4096)
        await client.send_frame(b"one")
        await shell.until(lambda: shell.node.frames == 1)
        await client.send_frame(b"two")
        assert await client.receive_frame() == last
        assert await shell.loop.sock_recv(client.socket, 1) == b""

    shell.run(scenario())
    assert shell.node.frames == 1


def test_effects_for_a_connection_that_is_gone_are_ignored(shell: Shell) -> None:
    async def scenario() -> None:
        client = await shell.connect()
        client.socket.close()
        await shell.until(lambda: len(shell.node.closings()) == 1)
        other = await shell.connect()
        gone = 1
        shell.node.on_frame = lambda connection, _: [
            Send(gone, [b"lost"]),
            PauseReading(gone),
            ResumeReading(gone),
            Close(gone, "again"),
            Send(connection, [b"here"]),
        ]
        await other.send_frame(b"talk to the dead")
        assert await other.receive_frame() == b"here"

    shell.run(scenario())
    assert shell.node.closings()[0].reason == "the peer closed the connection"


def test_a_reset_peer_is_reported_once(shell: Shell) -> None:
    async def scenario() -> None:
        client = await shell.connect()
        await client.send_frame(b"hello")
        await client.receive_frame()
        linger = (1).to_bytes(4, "little") + (0).to_bytes(4, "little")
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
        client.socket.close()
        await shell.until(lambda: shell.driver.connection_count == 0)

    shell.run(scenario())
    assert len(shell.node.closings()) == 1


def test_an_idle_connection_is_closed_and_a_busy_one_is_not(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(ConnectionLimits(idle_ms=40))

    async def scenario() -> None:
        idle = await shell.connect()
        trickling = await shell.connect()
        busy = await shell.connect()
        end = asyncio.ensure_future(idle.is_closed())
        while not end.done() or len(shell.node.closings()) < 2:
            await busy.send_frame(b"still here")
            await busy.receive_frame()
            if trickling.socket.fileno() >= 0 and len(shell.node.closings()) < 2:
                try:
                    await trickling.send(b"\0")
                except OSError:
                    trickling.socket.close()

    shell.run(scenario())
    assert {closing.connection for closing in shell.node.closings()} == {1, 2}


def test_one_address_may_hold_only_so_many_connections(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(ConnectionLimits(per_host=2))

    async def scenario() -> None:
        first = await shell.connect()
        await shell.connect()
        third = await shell.connect()
        assert await third.is_closed()
        first.socket.close()
        await shell.until(lambda: shell.driver.connection_count == 1)
        fourth = await shell.connect()
        await fourth.send_frame(b"in")
        assert await fourth.receive_frame() == b"in"

    shell.run(scenario())
    refused = [event for event in shell.events if isinstance(event, ConnectionRefused)]
    assert [event.peer_host for event in refused] == ["127.0.0.1"]


def test_all_addresses_together_hold_only_so_many_connections(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(ConnectionLimits(in_all=1))

    async def scenario() -> None:
        await shell.connect()
        assert await (await shell.connect()).is_closed()

    shell.run(scenario())
    assert any("max.connections" in event.cause for event in shell.events)


def test_connections_of_controllers_are_not_counted(make_shell: Callable[..., Shell]) -> None:
    """Else a small limit, which the cluster keeps, could never be taken back."""
    shell = make_shell(ConnectionLimits(in_all=1, per_host=1, unlimited=frozenset({"PLAIN"})))

    async def scenario() -> None:
        for _ in range(3):
            client = await shell.connect()
            await client.send_frame(b"in")
            assert await client.receive_frame() == b"in"

    shell.run(scenario())


def test_a_flood_of_small_requests_leaves_room_for_others(shell: Shell) -> None:
    order: list[int] = []

    def note(connection: int, frame: memoryview) -> list[Effect]:
        order.append(connection)
        return [Send(connection, [b"."])]

    shell.node.on_frame = note

    async def scenario() -> None:
        flood = await shell.connect()
        polite = await shell.connect()
        await polite.send_frame(b"first")
        await polite.receive_frame()
        await flood.send(framed(*[b"x"] * 5000))
        await polite.send_frame(b"second")
        await polite.receive_frame()

    shell.run(scenario())
    polite_turn = len(order) - 1 - order[::-1].index(2)
    assert polite_turn < 5000


def test_the_steps_of_requests_are_measured_only_while_the_node_wants_it(shell: Shell) -> None:
    def obey(connection: int, frame: memoryview) -> list[Effect]:
        answer = Send(connection, [bytes(frame)])
        return [MeasureRequests(bytes(frame) != b"enough"), answer]

    shell.node.on_frame = obey

    async def scenario() -> None:
        client = await shell.connect()
        for word in (b"measure", b"one", b"enough", b"enough"):
            await client.send_frame(word)
            assert await client.receive_frame() == word

    shell.run(scenario())
    took = [each for each in shell.node.inputs if isinstance(each, RequestTook)]
    assert len(took) == 2  # of the second request and the third
    assert all(each.nanoseconds > 0 for each in took)
