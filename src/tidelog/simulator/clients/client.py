"""A simulated client: a host without a disk that speaks real frames.

A client is a subclass that overrides what it wants to hear of. It acts through `connect`, `send`,
`hang_up` and `set_timer`, and never sees more of the cluster than answers to its frames.

Invariant  A client acts only when it is told something, so that a run is the same every time.
"""

from __future__ import annotations

from random import Random
from typing import Protocol
from zlib import crc32

from tidelog.model.errors import invariant
from tidelog.simulator.world.cluster import client_address
from tidelog.simulator.world.dice import stream
from tidelog.simulator.world.network import End
from tidelog.simulator.world.paths import CLIENTS
from tidelog.simulator.world.simulation import Simulation


class Client:
    """Base of all clients; `World.add_client` gives it its place."""

    dice: Random
    """Dice of its own."""
    host: ClientHost
    """Where it stands; both are there once the world knows the client."""

    def __init__(self, name: str) -> None:
        self.name = name

    # To be overridden.

    def on_started(self) -> None:
        """The world runs; called once, before anything else."""

    def on_connected(self, connection: int) -> None:
        """A connection that `connect` asked for is there."""

    def on_frame(self, connection: int, frame: memoryview) -> None:
        """One whole answer, without its length; gone when this returns."""

    def on_closed(self, connection: int, reason: str) -> None:
        """A connection broke, or never came about."""

    def on_timer(self, token: object) -> None:
        """A timer of `set_timer` is due."""

    # To be used.

    @property
    def now_ms(self) -> int:
        return self.host.world.timeline.now_ms

    def connect(self, address: str, port: int) -> int:
        """Ask for a connection; its number."""
        return self.host.connect(address, port)

    def send(self, connection: int, frame: bytes) -> None:
        """Send one request, without its length; lost without a word on a broken connection."""
        self.host.send(connection, frame)

    def hang_up(self, connection: int) -> None:
        """Close a connection; nothing more is heard of it."""
        self.host.hang_up(connection)

    def set_timer(self, after_ms: int, token: object) -> None:
        """Hear `on_timer` with this token after a while."""
        self.host.set_timer(after_ms, token)


class ClientWorld(Simulation, Protocol):
    """What a client's place needs of the world, and tells it."""

    calm_since_ms: int | None

    def client_acted(self, client: Client, sender: str, frame: bytes) -> None: ...


class ClientHost:
    """A client's place in the network."""

    powered = True
    zone = CLIENTS

    def __init__(self, world: ClientWorld, client: Client, number: int, dice: str) -> None:
        self.world = world
        self.name = client.name
        self.address = client_address(number)
        self._client = client
        self._ends: dict[int, End] = {}
        self._last_connection = 0
        client.host = self
        client.dice = stream(world.seed, "client", dice)

    def begin(self) -> None:
        self._client.on_started()
        self._acted()

    # From the client.

    def connect(self, address: str, port: int) -> int:
        self._last_connection += 1
        number = self._last_connection
        network, now_us = self.world.network, self.world.timeline.now_us
        self._ends[number] = network.connect(self, number, address, port, now_us)
        return number

    def send(self, connection: int, frame: bytes) -> None:
        if (end := self._ends.get(connection)) is not None:
            self.world.network.send(end, frame, self.world.timeline.now_us)

    def hang_up(self, connection: int) -> None:
        if (end := self._ends.pop(connection, None)) is not None:
            self.world.network.close(end, "the client hung up", self.world.timeline.now_us)

    def set_timer(self, after_ms: int, token: object) -> None:
        timeline = self.world.timeline
        timeline.at(timeline.now_us + after_ms * 1000, self._timer_due, token)

    # From the network and the timeline.

    def listening(self, port: int) -> str | None:
        return None

    def accepted(self, end: End, listener: str, peer_address: str) -> None:
        invariant(False, "nobody can connect to a client")

    def connected(self, end: End) -> None:
        self._note(f"+ {end.number}")
        self._client.on_connected(end.number)
        self._acted()

    def frame_arrived(self, end: End, frame: bytes) -> None:
        self._note(f"< {end.number} {len(frame)} B {crc32(frame):08x}")
        self._client.on_frame(end.number, memoryview(frame))
        self._acted("" if end.peer is None else end.peer.host.name, frame)

    def disconnected(self, end: End, reason: str) -> None:
        self._ends.pop(end.number, None)
        self._note(f"- {end.number} {reason}")
        self._client.on_closed(end.number, reason)
        self._acted()

    def _timer_due(self, token: object) -> None:
        self._note("timer")
        self._client.on_timer(token)
        self._acted()

    def _note(self, words: str) -> None:
        self.world.trace.note(f"{self.name} {words}")

    def _acted(self, sender: str = "", frame: bytes = b"") -> None:
        self.world.client_acted(self._client, sender, frame)
