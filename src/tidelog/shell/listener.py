"""Listening sockets: bound first, opened when the node says so, accepting a few at a time.

Invariant  An address somebody listens on is found out before the node touches its data; nobody
           is let in before the node asks for it.
Invariant  When the process has no descriptor left for a connection, accepting rests for a moment
           instead of spinning; existing connections go on. The same when they come too fast.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple, TypeAlias

from tidelog.model.errors import ConfigError
from tidelog.model.settings.endpoints import Endpoint
from tidelog.observe.events import AcceptingPaused, Event

_ACCEPT_AT_A_TIME: Final = 32
_REST_MS: Final = 500
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


Accepted: TypeAlias = Callable[[str, socket.socket, str], int]
"""Takes a peer over; how many milliseconds nobody else is to be let in."""


class SocketOptions(NamedTuple):
    """What is asked of the system for each connection; -1 leaves a size to it."""

    backlog: int = 50
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1


class Listener:
    """One name, one address; for a wildcard or a name with several, several sockets."""

    def __init__(
        self, endpoint: Endpoint, options: SocketOptions, setting: str = "listeners"
    ) -> None:
        """`setting` is where its address was given."""
        self._options = options
        self._setting = setting
        self._sockets = _bind_all(endpoint, setting)
        for bound in self._sockets:
            self._set_options(bound)
        self.endpoint: Final = Endpoint(
            endpoint.name, endpoint.host, self._sockets[0].getsockname()[1]
        )
        """The address, with the port that the system chose when it was asked to."""

    def open(
        self,
        loop: asyncio.AbstractEventLoop,
        accepted: Accepted,
        announce: Callable[[Event], None],
    ) -> None:
        """Let peers in: each is given to `accepted` with the listener's name and its address.

        ConfigError when another process, bound at the same time, was quicker.
        """
        for bound in self._sockets:
            try:
                bound.listen(self._options.backlog)
            except OSError as error:
                raise _cannot_listen(self.endpoint, error, self._setting) from error
            _Door(loop, bound, self, accepted, announce).open()

    def close(self, loop: asyncio.AbstractEventLoop) -> None:
        for bound in self._sockets:
            loop.remove_reader(bound.fileno())
            bound.close()
        self._sockets = []

    def _set_options(self, bound: socket.socket) -> None:
        # Connections inherit them. The window is agreed on before they are accepted; and where
        # the peer has hung up by then, some systems refuse to set anything.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, size in (
            (socket.SO_SNDBUF, self._options.send_buffer_bytes),
            (socket.SO_RCVBUF, self._options.receive_buffer_bytes),
        ):
            if size > 0:
                bound.setsockopt(socket.SOL_SOCKET, option, size)


class _Door:
    """One listening socket while it is open."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        bound: socket.socket,
        listener: Listener,
        accepted: Accepted,
        announce: Callable[[Event], None],
    ) -> None:
        self._loop = loop
        self._socket = bound
        self._name = listener.endpoint.name
        self._accepted = accepted
        self._announce = announce

    def open(self) -> None:
        if self._socket.fileno() >= 0:  # closed while it rested
            self._loop.add_reader(self._socket.fileno(), self._accept_some)

    def _accept_some(self) -> None:
        for _ in range(_ACCEPT_AT_A_TIME):
            try:
                peer, address = self._socket.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in _EXHAUSTED:
                    self._rest(error)
                    return
                continue  # the peer gave up before it was accepted
            peer.setblocking(False)
            pause_ms = self._accepted(self._name, peer, address[0].removeprefix("::ffff:"))
            if pause_ms > 0:
                self._pause(pause_ms)
                return

    def _pause(self, pause_ms: int) -> None:
        self._loop.remove_reader(self._socket.fileno())
        self._loop.call_later(pause_ms / 1000, self.open)

    def _rest(self, error: OSError) -> None:
        self._pause(_REST_MS)
        self._announce(
            AcceptingPaused(
                listener=self._name,
                retry_ms=_REST_MS,
                cause=f"{error.strerror}: raise the process's limit of open files (ulimit -n) "
                f"or lower max.connections",
            )
        )


def _bind_all(endpoint: Endpoint, setting: str) -> list[socket.socket]:
    """A bound socket per address the host stands for; at least one, or ConfigError."""
    bound: list[socket.socket] = []
    refusals: list[OSError] = []
    try:
        addresses = _addresses(endpoint)
    except OSError as error:
        raise _cannot_listen(endpoint, error, setting) from error
    for family, address in addresses:
        try:
            bound.append(_bind(family, address))
        except OSError as error:
            refusals.append(error)
            if error.errno == errno.EADDRINUSE:
                break
        if endpoint.port == 0 and bound:
            break  # each further socket would get a port of its own
    if not bound or any(error.errno == errno.EADDRINUSE for error in refusals):
        for one in bound:
            one.close()
        raise _cannot_listen(endpoint, refusals[0], setting) from refusals[0]
    return bound


def _addresses(endpoint: Endpoint) -> Sequence[tuple[int, tuple[str, int]]]:
    if not endpoint.host:
        if socket.has_dualstack_ipv6():
            return [(socket.AF_INET6, ("::", endpoint.port))]
        return [(socket.AF_INET, ("0.0.0.0", endpoint.port))]
    found = socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    # IPv4 first: with port 0 only the first address is bound.
    return sorted(
        {(int(family), (str(address[0]), int(address[1]))) for family, _, _, _, address in found}
    )


def _bind(family: int, address: tuple[str, int]) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setblocking(False)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address[0] != "::"))
        bound.bind(address)
    except OSError:
        bound.close()
        raise
    return bound


def _cannot_listen(endpoint: Endpoint, error: OSError, setting: str) -> ConfigError:
    where = f"{endpoint.name}://{endpoint.host}:{endpoint.port}"
    hint = (
        f"another process listens there: stop it or change `{setting}`"
        if error.errno == errno.EADDRINUSE
        else f"check the host and port in `{setting}`"
    )
    return ConfigError(f"cannot listen on {where}: {error.strerror or error}; {hint}")
