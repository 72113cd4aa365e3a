"""Connections that come too fast: of one address, and of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tidelog.node.core.effects import LimitConnections, Send
from tidelog.node.quotas.rate import Windows
from tidelog.observe.events import ConnectionRefused
from tidelog.shell.connection_rates import ConnectionRates
from tidelog.shell.effects import ConnectionLimits

if TYPE_CHECKING:
    from tests.shell.conftest import Shell

ELEVEN_SECONDS = Windows(11, 1000)
QUICK = Windows(2, 200)
ONE_AT_ONCE = 5
"""In a second: in windows of 200 ms a second connection is too many."""


def test_an_address_that_is_turned_away_counts_neither_for_itself_nor_for_the_node() -> None:
    rates = ConnectionRates(ELEVEN_SECONDS)
    for _ in range(10):
        assert rates.of_node(2, 0) == 0
        assert rates.of_host("10.0.0.1", 1, 0) == 0
    for _ in range(50):
        assert rates.of_node(2, 0) == 0
        assert rates.of_host("10.0.0.1", 1, 0) == 1_000
    for _ in range(10):
        assert rates.of_node(2, 0) == 0
    assert rates.of_node(2, 0) == 500


def test_nobody_waits_longer_than_one_window_even_where_nobody_may_come() -> None:
    rates = ConnectionRates(ELEVEN_SECONDS)
    assert rates.of_host("10.0.0.1", 0, 0) == 1_000
    assert rates.of_node(0, 0) == 1_000


def test_an_address_that_is_too_fast_is_turned_away_after_a_while_and_others_are_not(
    make_shell: Callable[..., Shell],
) -> None:
    limits = ConnectionLimits(
        rate_per_host=1_000, rates_of_hosts={"127.0.0.1": ONE_AT_ONCE}, windows=QUICK
    )
    shell = make_shell(limits)

    async def scenario() -> None:
        first = await shell.connect()
        await first.send_frame(b"in")
        assert await first.receive_frame() == b"in"
        begun_s = shell.loop.time()
        assert await (await shell.connect()).is_closed()
        assert shell.loop.time() - begun_s > 0.1

    shell.run(scenario())
    [refused] = [event for event in shell.events if isinstance(event, ConnectionRefused)]
    assert "connection_creation_rate" in refused.cause
    other = make_shell(limits._replace(rates_of_hosts={"127.0.0.2": 0}))

    async def all_are_let_in() -> None:
        for _ in range(20):
            client = await other.connect()
            await client.send_frame(b"in")
            assert await client.receive_frame() == b"in"

    other.run(all_are_let_in())


def test_connections_over_the_rate_of_the_node_wait_to_be_accepted(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(ConnectionLimits(rate=ONE_AT_ONCE, windows=QUICK))

    async def scenario() -> None:
        begun_s = shell.loop.time()
        for _ in range(3):
            client = await shell.connect()
            await client.send_frame(b"in")
            assert await client.receive_frame() == b"in"
        assert shell.loop.time() - begun_s > 0.15

    shell.run(scenario())
    assert not any(isinstance(event, ConnectionRefused) for event in shell.events)


def test_limits_of_single_addresses_count_instead_of_the_limit_of_all(
    make_shell: Callable[..., Shell],
) -> None:
    shell = make_shell(ConnectionLimits(per_host=1, of_hosts={"127.0.0.1": 2}))
    shell.node.on_frame = lambda connection, frame: [
        LimitConnections(per_host=9, in_all=9, of_hosts={"127.0.0.1": 0}),
        Send(connection, [bytes(frame)]),
    ]

    async def scenario() -> None:
        await shell.connect()
        second = await shell.connect()
        assert await (await shell.connect()).is_closed()
        await second.send_frame(b"limit")
        assert await second.receive_frame() == b"limit"
        second.socket.close()
        await shell.until(lambda: shell.driver.connection_count == 1)
        assert await (await shell.connect()).is_closed()

    shell.run(scenario())


def test_a_listener_that_brokers_need_has_no_rate(make_shell: Callable[..., Shell]) -> None:
    shell = make_shell(
        ConnectionLimits(rate=0, rate_per_host=0, windows=QUICK, any_rate=frozenset({"PLAIN"}))
    )

    async def scenario() -> None:
        for _ in range(20):
            client = await shell.connect()
            await client.send_frame(b"in")
            assert await client.receive_frame() == b"in"

    shell.run(scenario())
