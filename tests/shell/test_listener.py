from __future__ import annotations

import asyncio
import os
import resource
import socket
from typing import TYPE_CHECKING

import pytest
import uvloop

from tidelog.model.errors import ConfigError
from tidelog.model.settings.endpoints import Endpoint
from tidelog.observe.events import AcceptingPaused
from tidelog.shell.listener import Listener, SocketOptions

if TYPE_CHECKING:
    from tests.shell.conftest import Shell


def accepted_peer(endpoint: Endpoint, connect_to: str) -> tuple[str, str]:
    """Listen there, connect, and tell the listener's name and the peer's address."""
    loop = uvloop.new_event_loop()
    seen: list[tuple[str, str]] = []
    listener = Listener(endpoint, SocketOptions(receive_buffer_bytes=50_000))

    def accepted(name: str, peer: socket.socket, host: str) -> int:
        assert peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert peer.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert not peer.getblocking()
        peer.close()
        seen.append((name, host))
        loop.stop()
        return 0

    listener.open(loop, accepted, lambda event: None)
    with socket.create_connection((connect_to, listener.endpoint.port)):
        loop.run_forever()
    listener.close(loop)
    loop.close()
    return seen[0]


def test_an_ipv4_address_is_listened_on() -> None:
    assert accepted_peer(Endpoint("A", "127.0.0.1", 0), "127.0.0.1") == ("A", "127.0.0.1")


def test_an_ipv6_address_is_listened_on() -> None:
    assert accepted_peer(Endpoint("B", "::1", 0), "::1") == ("B", "::1")


def test_an_empty_host_is_every_address_of_both_families() -> None:
    assert accepted_peer(Endpoint("C", "", 0), "127.0.0.1") == ("C", "127.0.0.1")
    assert accepted_peer(Endpoint("C", "", 0), "::1") == ("C", "::1")


def test_a_host_name_is_resolved() -> None:
    assert accepted_peer(Endpoint("D", "localhost", 0), "127.0.0.1") == ("D", "127.0.0.1")


def test_a_port_in_use_is_refused_with_advice() -> None:
    loop = uvloop.new_event_loop()
    first = Listener(Endpoint("A", "127.0.0.1", 0), SocketOptions())
    first.open(loop, lambda name, peer, host: 0, lambda event: None)
    with pytest.raises(ConfigError, match="another process listens there"):
        Listener(first.endpoint, SocketOptions())
    first.close(loop)
    loop.close()


def test_of_two_that_are_bound_to_a_port_only_one_can_open() -> None:
    loop = uvloop.new_event_loop()
    first = Listener(Endpoint("A", "127.0.0.1", 0), SocketOptions())
    second = Listener(first.endpoint, SocketOptions())
    first.open(loop, lambda name, peer, host: 0, lambda event: None)
    with pytest.raises(ConfigError, match="another process listens there"):
        second.open(loop, lambda name, peer, host: 0, lambda event: None)
    first.close(loop)
    second.close(loop)
    loop.close()


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(ConfigError, match="check the host and port"):
        Listener(Endpoint("A", "192.0.2.1", 0), SocketOptions())


def test_nobody_is_let_in_before_the_listener_is_opened() -> None:
    loop = uvloop.new_event_loop()
    listener = Listener(Endpoint("A", "127.0.0.1", 0), SocketOptions())
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", listener.endpoint.port))
    listener.close(loop)
    loop.close()


def test_without_descriptors_accepting_rests_and_goes_on(shell: Shell) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)

    async def scenario() -> None:
        first = await shell.connect()
        await first.send_frame(b"in")
        assert await first.receive_frame() == b"in"
        waiting = socket.socket()
        waiting.setblocking(False)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            await asyncio.get_running_loop().sock_connect(
                waiting, ("127.0.0.1", shell.listener.endpoint.port)
            )
            await shell.until(
                lambda: any(isinstance(event, AcceptingPaused) for event in shell.events)
            )
            await first.send_frame(b"still in")
            assert await first.receive_frame() == b"still in"
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        await shell.until(lambda: shell.driver.connection_count == 2)
        waiting.close()

    shell.run(scenario())
    assert sum(isinstance(event, AcceptingPaused) for event in shell.events) == 1
