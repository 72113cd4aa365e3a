"""The dull half of a node: hands over what happens, carries out what the node asks for.

Invariant  Effects are carried out in order and never step the node: what they cause arrives as a
           later input.
Invariant  Within one loop tick all inputs carry the same time; a tick with inputs ends with
           `TickEnded`, after which every queued answer is written.
Invariant  Effects for a connection or link that is gone are ignored.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol, assert_never

from tidelog.model.time import Now
from tidelog.node.core.effects import (
    Announce,
    Close,
    CloseLink,
    Effect,
    LimitConnections,
    LimitFrames,
    MeasureRequests,
    OpenLink,
    OpenListeners,
    PauseReading,
    ResumeReading,
    RunJob,
    Send,
    SendOnLink,
    Stopped,
)
from tidelog.node.core.inputs import (
    ConnectionClosed,
    ConnectionOpened,
    FrameArrived,
    Input,
    JobFinished,
    RequestTook,
    StopRequested,
    TickEnded,
    TimePassed,
)
from tidelog.node.quotas.rate import Windows
from tidelog.observe.events import ConnectionDropped, ConnectionRefused, Event
from tidelog.shell.certificates import NodeCertificates
from tidelog.shell.clock import read_clock
from tidelog.shell.connection import Connection, Peer
from tidelog.shell.connection_rates import ConnectionRates
from tidelog.shell.jobs import Jobs
from tidelog.shell.links import LinkLimits, OutgoingLinks
from tidelog.shell.slabs import SlabPool
from tidelog.shell.tls_connection import HANDSHAKE_WITHIN_S, TlsConnection
from tidelog.shell.transfer import Transfer, best_transfer

_CLOSE_WITHIN_MS: Final = 10_000
_NEVER_MS: Final = 2**63
_ANY_RATE: Final = 2_147_483_647
_TURNED_AWAY_MAX: Final = 1_000


class SteppedNode(Protocol):
    """A whole node without IO."""

    @property
    def next_deadline_ms(self) -> int | None:
        """When it wants to hear that time has passed, on the monotonic clock."""
        ...

    def step(self, happened: Input) -> list[Effect]: ...


class _StoppedNode:
    """In the place of a node that is done: it wants nothing and hears nothing."""

    next_deadline_ms: Final = None

    def step(self, happened: Input) -> list[Effect]:
        return []


class ConnectionLimits(NamedTuple):
    """How much one peer may take, and all peers together; an idle time below 0 is any time."""

    frame_bytes: int = 104_857_600
    idle_ms: int = 600_000
    per_host: int = 2_147_483_647
    in_all: int = 2_147_483_647
    handshake_within_s: float = HANDSHAKE_WITHIN_S
    of_hosts: Mapping[str, int] = MappingProxyType({})
    """How many addresses may have for which `per_host` does not count."""
    rate: int = 2_147_483_647
    """Connections in a second."""
    rate_per_host: int = 2_147_483_647
    rates_of_hosts: Mapping[str, int] = MappingProxyType({})
    windows: Windows = Windows(11, 1000)
    """In which rates are measured."""
    any_rate: frozenset[str] = frozenset()
    """Listeners whose connections may be made at any rate: without each other brokers cannot do."""
    unlimited: frozenset[str] = frozenset()
    """Listeners whose connections are not counted: without its controllers a cluster could neither
    start nor take a limit back."""


class World(NamedTuple):
    """What effects reach besides connections, links and jobs."""

    announce: Callable[[Event, Now], None]
    open_listeners: Callable[[tuple[str, ...]], None]
    stopped: Callable[[str | None], None]


class NodeDriver:
    """Drives one node on one event loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        node: SteppedNode,
        world: World,
        limits: ConnectionLimits,
        transfer: Transfer | None = None,
        link_limits: LinkLimits | None = None,
        certificates: NodeCertificates | None = None,
    ) -> None:
        self._loop = loop
        self._node = node
        self._world = world
        self._limits = limits
        self._transfer = transfer or best_transfer()
        self._pool = SlabPool()
        self._jobs = Jobs(loop, self._job_finished)
        self._certificates = certificates
        self._links = OutgoingLinks(
            loop,
            lambda: self.now,
            self._happened,
            self._pool,
            self._transfer,
            link_limits or LinkLimits(),
            self._context_towards,
        )
        self._connections: dict[int, Connection] = {}
        self._per_host: Counter[str] = Counter()
        self._last_connection = 0
        self._measures_requests = False
        self._rates = ConnectionRates(limits.windows)
        self._turned_away: dict[socket.socket, asyncio.TimerHandle] = {}
        """Sockets of addresses that were too fast, until they are closed."""
        self._unflushed: list[Connection] = []
        self._now: Now | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._idle_ms = limits.idle_ms if limits.idle_ms >= 0 else _NEVER_MS
        self._sweep_s = max(1, min(self._idle_ms, _CLOSE_WITHIN_MS) // 4) / 1000
        self._sweeper = loop.call_later(self._sweep_s, self._sweep_idle)

    @property
    def now(self) -> Now:
        """The time of this tick, which ends once the callbacks that are ready have run."""
        return self._now or self._begin_tick()

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    def connections_by_listener(self) -> Counter[str]:
        return Counter(connection.peer.listener for connection in self._connections.values())

    @property
    def link_count(self) -> int:
        """Links that are opened."""
        return len(self._links.connections)

    @property
    def queued_bytes(self) -> int:
        """Answers that their peers have not taken yet."""
        return sum(connection.queued_bytes for connection in self._connections.values())

    @property
    def pending_bytes(self) -> int:
        """Received of requests that are not complete yet."""
        return sum(connection.pending_bytes for connection in self._connections.values())

    def begin(self, effects: Iterable[Effect]) -> None:
        """Carry out what the node's start asks for; the first tick follows."""
        self._begin_tick()
        self._carry_out(effects)

    def request_stop(self, reason: str) -> None:
        self._happened(StopRequested(self.now, reason))

    def accept(self, listener: str, peer_socket: socket.socket, peer_host: str) -> int:
        """Take a connection over, or turn it away when there are too many, or too many at a time.

        How many milliseconds its listener is not to accept another one.
        """
        pause_ms = 0
        if listener not in self._limits.any_rate:
            pause_ms = self._rates.of_node(self._limits.rate, self.now.monotonic_ms)
        refusal = self._refusal(listener, peer_host)
        wait_ms = 0 if refusal is not None else self._too_fast_ms(listener, peer_host)
        if wait_ms > 0:
            refusal = "this address makes connections too fast (connection_creation_rate)"
        if refusal is not None:
            self._turn_away(peer_socket, wait_ms)
            self._announce(ConnectionRefused(listener=listener, peer_host=peer_host, cause=refusal))
            return pause_ms
        self._last_connection += 1
        peer = Peer(self._last_connection, listener, peer_host)
        now = self.now
        connection = self._connection(peer, peer_socket)
        if connection is None:
            return pause_ms
        connection.idle_since_ms = now.monotonic_ms
        self._connections[peer.connection] = connection
        if listener not in self._limits.unlimited:
            self._per_host[peer_host] += 1
        if not isinstance(connection, TlsConnection):  # which is opened once it is secured
            self._happened(ConnectionOpened(now, peer.connection, listener, peer_host))
        connection.start()
        return pause_ms

    def connection_secured(self, peer: Peer, certificate: bytes | None) -> None:
        self._happened(
            ConnectionOpened(self.now, peer.connection, peer.listener, peer.host, certificate)
        )

    def frame_arrived(self, peer: Peer, frame: memoryview) -> None:
        if not self._measures_requests:
            self._happened(FrameArrived(self.now, peer.connection, frame))
            return
        begun_ns = time.perf_counter_ns()
        self._happened(FrameArrived(self.now, peer.connection, frame))
        self._happened(RequestTook(self.now, time.perf_counter_ns() - begun_ns))

    def connection_dropped(self, peer: Peer, cause: str) -> None:
        self._announce(ConnectionDropped(listener=peer.listener, peer_host=peer.host, cause=cause))

    def connection_gone(self, peer: Peer, reason: str) -> None:
        del self._connections[peer.connection]
        if peer.listener not in self._limits.unlimited:
            self._per_host[peer.host] -= 1
            if not self._per_host[peer.host]:
                del self._per_host[peer.host]
        self._happened(ConnectionClosed(self.now, peer.connection, reason))

    def close(self) -> None:
        """Stop driving: write what can be written at once, then let everything go."""
        self._node = _StoppedNode()
        self._sweeper.cancel()
        self._set_timer(None)
        self._jobs.close()
        self._links.close_all("the node stopped")
        for turned_away, timer in self._turned_away.items():
            timer.cancel()
            turned_away.close()
        for connection in list(self._connections.values()):
            connection.flush()
            connection.abandon("the node stopped")

    def _connection(self, peer: Peer, peer_socket: socket.socket) -> Connection | None:
        frame_limit = self._limits.frame_bytes
        context = None
        if self._certificates is not None:
            now_ms = self.now.monotonic_ms
            context = self._certificates.of_listener(peer.listener, now_ms, self._announce)
        if context is None:
            return Connection(
                self._loop, self, peer, peer_socket, self._pool, self._transfer, frame_limit
            )
        try:
            return TlsConnection(
                self._loop,
                self,
                peer,
                peer_socket,
                self._pool,
                frame_limit,
                context,
                handshake_within_s=self._limits.handshake_within_s,
            )
        except OSError:  # the peer has hung up already
            peer_socket.close()
            return None

    def _context_towards(self, listener: str) -> ssl.SSLContext | None:
        if self._certificates is None:
            return None
        return self._certificates.towards(listener, self.now.monotonic_ms, self._announce)

    def _refusal(self, listener: str, peer_host: str) -> str | None:
        limits = self._limits
        if listener in limits.unlimited:
            return None
        if self._per_host.total() >= limits.in_all:
            return f"the node already has {limits.in_all} connections (max.connections)"
        most = limits.of_hosts.get(peer_host, limits.per_host)
        if self._per_host[peer_host] >= most:
            return f"this address already has {most} connections (max.connections.per.ip)"
        return None

    def _too_fast_ms(self, listener: str, peer_host: str) -> int:
        limits = self._limits
        limit = limits.rates_of_hosts.get(peer_host, limits.rate_per_host)
        if limit == _ANY_RATE or listener in limits.any_rate:
            return 0
        return self._rates.of_host(peer_host, limit, self.now.monotonic_ms)

    def _turn_away(self, peer_socket: socket.socket, after_ms: int) -> None:
        """Close it; later, if its peer is to be slowed down, and only so many at a time."""
        if after_ms == 0 or len(self._turned_away) >= _TURNED_AWAY_MAX:
            peer_socket.close()
            return

        def close() -> None:
            del self._turned_away[peer_socket]
            peer_socket.close()

        self._turned_away[peer_socket] = self._loop.call_later(after_ms / 1000, close)

    def _happened(self, happened: Input) -> None:
        effects = self._node.step(happened)
        if effects:
            self._carry_out(effects)

    def _carry_out(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Send):
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.send(effect.parts)
                    self._flush_later(connection)
                continue
            match effect:
                case SendOnLink(link, parts):
                    connection = self._links.connections.get(link)
                    if connection is not None:
                        connection.send(parts)
                        self._flush_later(connection)
                case OpenLink(link, host, port, listener):
                    self._links.open(link, host, port, listener)
                case CloseLink(link, reason):
                    self._links.close(link, reason)
                case Close(identity, reason):
                    connection = self._connections.get(identity)
                    if connection is not None:
                        connection.close(reason)
                        self._flush_later(connection)
                case LimitFrames(identity, most_bytes):
                    connection = self._connections.get(identity)
                    if connection is not None:
                        connection.limit_frames(most_bytes)
                case PauseReading(identity):
                    connection = self._connections.get(identity)
                    if connection is not None:
                        connection.pause_reading()
                case ResumeReading(identity):
                    connection = self._connections.get(identity)
                    if connection is not None:
                        connection.resume_reading()
                case RunJob(job_id, work, lane):
                    self._jobs.run(job_id, work, lane)
                case Announce(event):
                    self._announce(event)
                case OpenListeners(names):
                    self._world.open_listeners(names)
                case LimitConnections():
                    self._limits = self._limits._replace(**effect._asdict())
                case MeasureRequests(is_wanted):
                    self._measures_requests = is_wanted
                case Stopped(failure):
                    self._node = _StoppedNode()
                    self._world.stopped(failure)
                case _:
                    assert_never(effect)

    def _flush_later(self, connection: Connection) -> None:
        if not connection.flush_due:
            connection.flush_due = True
            self._unflushed.append(connection)

    def _announce(self, event: Event) -> None:
        self._world.announce(event, self._now or read_clock())

    def _job_finished(self, job_id: int, error: str | None) -> None:
        self._happened(JobFinished(self.now, job_id, error))

    def _begin_tick(self) -> Now:
        self._now = read_clock()
        self._loop.call_soon(self._end_tick)
        return self._now

    def _end_tick(self) -> None:
        now = self.now
        self._happened(TickEnded(now))
        self._now = None  # whatever flushing brings belongs to a new tick
        unflushed, self._unflushed = self._unflushed, []
        for connection in unflushed:
            if connection.flush_due:
                connection.flush()
        self._set_timer(self._node.next_deadline_ms, now.monotonic_ms)

    def _set_timer(self, deadline_ms: int | None, now_ms: int = 0) -> None:
        if deadline_ms == self._timer_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._timer_ms = deadline_ms
        if deadline_ms is not None:
            delay_ms = max(0, deadline_ms - now_ms)
            self._timer = self._loop.call_later(delay_ms / 1000, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        self._timer_ms = None
        self._happened(TimePassed(self.now))

    def _sweep_idle(self) -> None:
        """Close who has finished no request for too long, or does not take the last answers."""
        now_ms = read_clock().monotonic_ms
        for connection in list(self._connections.values()):
            if connection.active:
                connection.active = False
                connection.idle_since_ms = now_ms
                continue
            idle_ms = now_ms - connection.idle_since_ms
            if connection.is_closing:
                if idle_ms >= _CLOSE_WITHIN_MS:
                    connection.abandon("closed")
            elif idle_ms >= self._idle_ms:
                connection.abandon(f"no whole request in {idle_ms} ms (connections.max.idle.ms)")
        self._sweeper = self._loop.call_later(self._sweep_s, self._sweep_idle)
