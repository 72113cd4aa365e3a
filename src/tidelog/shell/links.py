"""Outgoing connections: what the node asks of other nodes, over TCP.

Invariant  Nothing is reported while effects are carried out: every report comes from a callback
           of the loop, so the node is never stepped from inside a step.
Invariant  Each link ends with exactly one `LinkClosed`, or with none when the node closed it.
Invariant  An attempt to connect ends within a bound: each address of the host gets its time, and a
           silent name server a little more.
Invariant  A link that is given up is reset: a goodbye would wait for its turn behind requests that
           nobody stands by any more, and have the kernel send them until they arrive.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from tidelog.model.time import Now
from tidelog.node.core.inputs import Input, LinkClosed, LinkFrame, LinkOpened
from tidelog.shell.connection import ALWAYS_READ, SILENT, Connection, Peer
from tidelog.shell.host_names import HostNames, SocketAddress
from tidelog.shell.slabs import SlabPool
from tidelog.shell.tls_connection import TlsConnection
from tidelog.shell.transfer import Transfer

_UNDER_WAY: Final = frozenset({0, errno.EINPROGRESS, errno.EWOULDBLOCK})


class LinkLimits(NamedTuple):
    """How much an answer may take, and connecting; a size of -1 is left to the system."""

    frame_bytes: int = 104_857_600
    connect_within_s: float = 2.0
    resolve_within_s: float = 10.0
    receive_buffer_bytes: int = -1


class OutgoingLinks:
    """The links of one node: those that are opened, and those that are about to be."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        clock: Callable[[], Now],
        happened: Callable[[Input], None],
        pool: SlabPool,
        transfer: Transfer,
        limits: LinkLimits,
        context_towards: Callable[[str], ssl.SSLContext | None],
    ) -> None:
        """`context_towards` says how listeners of a name are spoken to; None is as it is."""
        self._context_towards = context_towards
        self._loop = loop
        self._clock = clock
        self._happened = happened
        self._pool = pool
        self._transfer = transfer
        self._limits = limits
        self._names = HostNames(loop)
        self._attempts: dict[int, _Attempt] = {}
        self.connections: Final[dict[int, Connection]] = {}

    def open(self, link: int, host: str, port: int, listener: str) -> None:
        """Connect; `LinkOpened` or `LinkClosed` follows."""
        attempt = _Attempt(self._loop, self, Peer(link, listener, host), self._limits)
        self._attempts[link] = attempt
        attempt.start(self._names, port)

    def close(self, link: int, reason: str) -> None:
        """Reset a link, whatever it still has to send, and report nothing more of it."""
        attempt = self._attempts.pop(link, None)
        if attempt is not None:
            attempt.cancel()
        connection = self.connections.pop(link, None)
        if connection is not None:
            connection.reset(reason)

    def close_all(self, reason: str) -> None:
        """Write what can be written at once, then let all links go."""
        for attempt in self._attempts.values():
            attempt.cancel()
        self._attempts.clear()
        for connection in list(self.connections.values()):
            connection.flush()
            connection.abandon(reason)

    def connected(self, peer: Peer, peer_socket: socket.socket) -> None:
        """An attempt succeeded."""
        context = self._context_towards(peer.listener)
        if context is not None:
            self._secure(peer, peer_socket, context)
            return
        del self._attempts[peer.connection]
        connection = self.connections[peer.connection] = Connection(
            self._loop,
            self,
            peer,
            peer_socket,
            self._pool,
            self._transfer,
            self._limits.frame_bytes,
            ALWAYS_READ,
        )
        self._happened(LinkOpened(self._clock(), peer.connection))
        connection.start()

    def connection_secured(self, peer: Peer, certificate: bytes | None) -> None:
        self._happened(LinkOpened(self._clock(), peer.connection))

    def not_connected(self, peer: Peer, reason: str, by_peer: bool) -> None:
        """An attempt failed."""
        del self._attempts[peer.connection]
        self._happened(LinkClosed(self._clock(), peer.connection, reason, by_peer))

    def _secure(self, peer: Peer, peer_socket: socket.socket, context: ssl.SSLContext) -> None:
        try:
            connection = TlsConnection(
                self._loop,
                self,
                peer,
                peer_socket,
                self._pool,
                self._limits.frame_bytes,
                context,
                server_hostname=peer.host,
                stop_reading_above=ALWAYS_READ,
            )
        except (OSError, ValueError) as error:
            peer_socket.close()
            self.not_connected(peer, f"cannot speak TLS: {error}", by_peer=False)
            return
        del self._attempts[peer.connection]
        self.connections[peer.connection] = connection
        connection.start()

    def frame_arrived(self, peer: Peer, frame: memoryview) -> None:
        self._happened(LinkFrame(self._clock(), peer.connection, frame))

    def connection_dropped(self, peer: Peer, cause: str) -> None:
        # What is queued for a peer that makes no sense need not reach it.
        self.connections[peer.connection].reset(cause)

    def connection_gone(self, peer: Peer, reason: str) -> None:
        connection = self.connections.pop(peer.connection, None)
        if connection is not None:
            by_peer = connection.was_ended_by_peer
            self._happened(LinkClosed(self._clock(), peer.connection, reason, by_peer))


class _Attempt:
    """Connecting to the first address of a host that answers."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        links: OutgoingLinks,
        peer: Peer,
        limits: LinkLimits,
    ) -> None:
        self._loop = loop
        self._links = links
        self._peer = peer
        self._limits = limits
        self._addresses: deque[SocketAddress] = deque()
        self._socket: socket.socket | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ended = False

    def start(self, names: HostNames, port: int) -> None:
        self._allow(self._limits.resolve_within_s, "the host name is not resolved")
        names.resolve(self._peer.host, port, self._resolved)

    def cancel(self) -> None:
        self._ended = True
        self._allow(None)
        self._let_go()

    def _resolved(self, found: Sequence[SocketAddress] | OSError) -> None:
        if self._ended:
            return
        if isinstance(found, OSError):
            self._failed(f"the host name is not resolved: {found.strerror or found}", by_peer=False)
            return
        self._addresses.extend(found)
        self._try_next("the host has no address", by_peer=False)

    def _try_next(self, failure: str, *, by_peer: bool) -> None:
        while self._addresses:
            family, address = self._addresses.popleft()
            try:
                self._socket = connecting = socket.socket(family, socket.SOCK_STREAM)
                self._prepare(connecting)
                outcome = connecting.connect_ex(address)
            except OSError as error:
                failure, by_peer = f"cannot connect: {error.strerror or error}", False
                self._let_go()
                continue
            if outcome in _UNDER_WAY:
                self._allow(self._limits.connect_within_s, "no connection")
                self._loop.add_writer(connecting.fileno(), self._settled)
                return
            failure, by_peer = f"cannot connect: {os.strerror(outcome)}", outcome not in SILENT
            self._let_go()
        self._failed(failure, by_peer=by_peer)

    def _prepare(self, connecting: socket.socket) -> None:
        connecting.setblocking(False)
        connecting.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connecting.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        size = self._limits.receive_buffer_bytes
        if size > 0:
            connecting.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def _settled(self) -> None:
        connected = self._socket
        if connected is None:
            return
        outcome = connected.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if outcome == 0 and _is_own_echo(connected):
            outcome = errno.ECONNREFUSED
        if outcome:
            self._let_go()
            reason = f"cannot connect: {os.strerror(outcome)}"
            self._try_next(reason, by_peer=outcome not in SILENT)
            return
        self._ended = True
        self._allow(None)
        self._loop.remove_writer(connected.fileno())
        self._links.connected(self._peer, connected)

    def _too_late(self, within_s: float, what: str) -> None:
        self._let_go()
        self._try_next(f"{what} within {within_s:g} s", by_peer=False)

    def _failed(self, reason: str, *, by_peer: bool) -> None:
        self._ended = True
        self._allow(None)
        self._links.not_connected(self._peer, reason, by_peer)

    def _allow(self, within_s: float | None, what: str = "") -> None:
        """Wait that long for what comes next."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if within_s is not None:
            self._timer = self._loop.call_later(within_s, self._too_late, within_s, what)

    def _let_go(self) -> None:
        if self._socket is not None:
            self._loop.remove_writer(self._socket.fileno())
            self._socket.close()
            self._socket = None


def _is_own_echo(connected: socket.socket) -> bool:
    """Whether a socket met itself: on one machine, a free port may be chosen for both ends."""
    try:
        return bool(connected.getsockname() == connected.getpeername())
    except OSError:  # reset meanwhile: the first read will tell
        return False
