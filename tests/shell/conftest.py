"""A shell around a node that does what a test tells it, with real sockets on 127.0.0.1."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest
import uvloop

from tidelog.model.settings.endpoints import Endpoint
from tidelog.model.time import Now
from tidelog.node.core.effects import Effect, Send
from tidelog.node.core.inputs import ConnectionClosed, FrameArrived, Input
from tidelog.observe.events import Event
from tidelog.shell.certificates import NodeCertificates
from tidelog.shell.effects import ConnectionLimits, NodeDriver, World
from tidelog.shell.links import LinkLimits
from tidelog.shell.listener import Listener, SocketOptions
from tidelog.shell.transfer import Transfer

LENGTH = struct.Struct(">i")


class ScriptedNode:
    """Echoes frames unless told otherwise; remembers every input but the frames' bytes."""

    def __init__(self) -> None:
        self.inputs: list[Input] = []
        self.frames = 0
        self.next_deadline_ms: int | None = None
        self.on_frame: Callable[[int, memoryview], list[Effect]] = self.echo
        self.on_input: Callable[[Input], list[Effect]] = lambda _: []

    def step(self, happened: Input) -> list[Effect]:
        if isinstance(happened, FrameArrived):
            self.frames += 1
            return self.on_frame(happened.connection, happened.frame)
        self.inputs.append(happened)
        return self.on_input(happened)

    def echo(self, connection: int, frame: memoryview) -> list[Effect]:
        return [Send(connection, [bytes(frame)])]

    def kinds(self) -> list[str]:
        return [type(happened).__name__ for happened in self.inputs]

    def closings(self) -> list[ConnectionClosed]:
        return [happened for happened in self.inputs if isinstance(happened, ConnectionClosed)]


class Client:
    """A peer that sends and receives bytes, on the same loop."""

    def __init__(self, peer: socket.socket) -> None:
        self.socket = peer
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes) -> None:
        await self._loop.sock_sendall(self.socket, data)

    async def send_frame(self, body: bytes) -> None:
        await self.send(LENGTH.pack(len(body)) + body)

    async def receive(self, count: int) -> bytes:
        received = bytearray()
        while len(received) < count:
            piece = await self._loop.sock_recv(self.socket, min(count - len(received), 65536))
            if not piece:
                raise EOFError(f"{len(received)} of {count} bytes, then the end")
            received += piece
        return bytes(received)

    async def receive_frame(self) -> bytes:
        (length,) = LENGTH.unpack(await self.receive(4))
        return await self.receive(length)

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; False when bytes come instead."""
        try:
            return not await self._loop.sock_recv(self.socket, 1)
        except ConnectionResetError:
            return True


class Door:
    """A bare listening socket, for links; what it does with them is up to the test."""

    def __init__(self, family: int, host: str, port: int) -> None:
        self.socket = socket.socket(family)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((host, port))
        self.socket.listen()
        self.socket.setblocking(False)
        self.port: int = self.socket.getsockname()[1]
        self._accepted: list[socket.socket] = []

    async def accept(self) -> Client:
        peer, _ = await asyncio.get_running_loop().sock_accept(self.socket)
        self._accepted.append(peer)
        return Client(peer)

    def close(self) -> None:
        for one in (self.socket, *self._accepted):
            one.close()


class Shell:
    """One driver, one listener, one scripted node."""

    def __init__(
        self,
        limits: ConnectionLimits | None = None,
        transfer: Transfer | None = None,
        options: SocketOptions | None = None,
        link_limits: LinkLimits | None = None,
        certificates: NodeCertificates | None = None,
    ) -> None:
        self.loop = uvloop.new_event_loop()
        self.node = ScriptedNode()
        self.events: list[Event] = []
        self.opened: list[str] = []
        self.stopped: list[str | None] = []
        self.failures: list[BaseException] = []
        self.loop.set_exception_handler(self._note_failure)
        world = World(self._announce, self.opened.extend, self.stopped.append)
        self.driver = NodeDriver(
            self.loop,
            self.node,
            world,
            limits or ConnectionLimits(),
            transfer,
            link_limits,
            certificates,
        )
        self.listener = Listener(Endpoint("PLAIN", "127.0.0.1", 0), options or SocketOptions())
        self.listener.open(self.loop, self.driver.accept, self.events.append)
        self._clients: list[socket.socket] = []

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        """Play a scenario to its end; a failure in a callback fails it, too."""
        self.loop.run_until_complete(asyncio.wait_for(scenario, 30))
        for failure in self.failures:
            raise failure

    async def connect(self, receive_buffer: int | None = None) -> Client:
        peer = socket.socket()
        self._clients.append(peer)
        if receive_buffer is not None:
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        peer.setblocking(False)
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        await self.loop.sock_connect(peer, ("127.0.0.1", self.listener.endpoint.port))
        return Client(peer)

    async def until(self, reached: Callable[[], bool]) -> None:
        """Let the loop turn until something is so."""
        while not reached():
            await asyncio.sleep(0)

    def close(self) -> None:
        self.driver.close()
        self.listener.close(self.loop)
        for peer in self._clients:
            peer.close()
        self.loop.close()

    def _announce(self, event: Event, now: Now) -> None:
        self.events.append(event)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        self.failures.append(context.get("exception") or RuntimeError(context["message"]))


@pytest.fixture
def make_shell() -> Iterator[Callable[..., Shell]]:
    """Shells with the limits a test asks for."""
    made: list[Shell] = []

    def make(
        limits: ConnectionLimits | None = None,
        transfer: Transfer | None = None,
        options: SocketOptions | None = None,
        link_limits: LinkLimits | None = None,
        certificates: NodeCertificates | None = None,
    ) -> Shell:
        made.append(Shell(limits, transfer, options, link_limits, certificates))
        return made[-1]

    yield make
    for shell in made:
        shell.close()


@pytest.fixture
def shell(make_shell: Callable[..., Shell]) -> Shell:
    return make_shell()


@pytest.fixture
def make_door() -> Iterator[Callable[..., Door]]:
    """Listening sockets where a test wants them."""
    made: list[Door] = []

    def make(family: int = socket.AF_INET, host: str = "127.0.0.1", port: int = 0) -> Door:
        made.append(Door(family, host, port))
        return made[-1]

    yield make
    for door in made:
        door.close()


@pytest.fixture
def door(make_door: Callable[..., Door]) -> Door:
    return make_door()
