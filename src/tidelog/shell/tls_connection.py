"""A peer's socket under TLS: a handshake first, then the same frames as without.

Invariant  Nothing of a peer is handed over before its handshake is complete, and one that does not
           complete it in time is let go.
Invariant  Bytes that OpenSSL has read from the socket and not given out are asked for without
           waiting for the socket, which has nothing to tell about them.
Invariant  Bytes of files go through OpenSSL like all others: no system call that would send them
           as they are knows this socket.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import Final, Protocol, cast

from tidelog.shell.connection import STOP_READING_ABOVE, Connection, ConnectionHost, Peer
from tidelog.shell.slabs import SlabPool
from tidelog.shell.transfer import ReadAndSend
from tidelog.storage.filesystem import Buffer

HANDSHAKE_WITHIN_S: Final = 10.0
_JOIN_AT_MOST: Final = 65_536
_read_and_send: Final = ReadAndSend()


class SecuredConnectionHost(ConnectionHost, Protocol):
    """Whoever owns connections that begin with a handshake."""

    def connection_secured(self, peer: Peer, certificate: bytes | None) -> None:
        """The handshake is complete; the peer has shown this certificate, in DER, if any."""
        ...


class TlsSocket(ssl.SSLSocket):
    """A socket under TLS that behaves like one without where `Connection` and its boxes use it.

    A call that OpenSSL cannot finish at once raises BlockingIOError, as it would without TLS.
    """

    wants_to_write = False
    """Whether reading goes on only after a write."""

    def recv_into(  # type: ignore[override]
        self, buffer: memoryview, nbytes: int | None = None, flags: int = 0
    ) -> int:
        """Fill the buffer with as many records as are there."""
        received = 0
        while received < len(buffer):
            try:
                count = super().recv_into(buffer[received:])
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError) as wait:
                self.wants_to_write = isinstance(wait, ssl.SSLWantWriteError)
                if received:
                    break
                raise BlockingIOError from wait
            if count == 0:
                break
            received += count
        return received

    def sendmsg(  # type: ignore[override]
        self, buffers: Iterable[Buffer], ancdata: tuple[()] = (), flags: int = 0
    ) -> int:
        """Send the first of the buffers, small ones joined to one record."""
        joined: list[Buffer] = []
        size = 0
        for buffer in buffers:
            if joined and size + len(buffer) > _JOIN_AT_MOST:
                break
            joined.append(buffer)
            size += len(buffer)
        return self.send(joined[0] if len(joined) == 1 else b"".join(joined)) if size else 0

    def send(self, data: Buffer, flags: int = 0) -> int:  # type: ignore[override]
        # After BlockingIOError OpenSSL wants the same bytes again, at least as many: both boxes
        # keep what was not taken at the head of their queues.
        try:
            return super().send(data)
        except ssl.SSLWantWriteError as wait:
            raise BlockingIOError from wait

    def shutdown(self, how: int) -> None:
        """Tell the peer that nothing follows, in TLS and below it."""
        with suppress(ssl.SSLWantReadError, ssl.SSLWantWriteError):  # it need not say the same
            self.unwrap()
        super().shutdown(how)


def prepare(context: ssl.SSLContext) -> ssl.SSLContext:
    """Have the context make sockets that a `TlsConnection` takes."""
    context.sslsocket_class = TlsSocket
    return context


class TlsConnection(Connection):
    """The two directions of one socket, behind a handshake."""

    __slots__ = (
        "_deadline",
        "_handshake_within_s",
        "_is_receiving",
        "_secured_host",
        "_shaking",
        "_tls",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: SecuredConnectionHost,
        peer: Peer,
        peer_socket: socket.socket,
        pool: SlabPool,
        frame_limit: int,
        context: ssl.SSLContext,
        *,
        server_hostname: str | None = None,
        stop_reading_above: int = STOP_READING_ABOVE,
        handshake_within_s: float = HANDSHAKE_WITHIN_S,
    ) -> None:
        """`server_hostname` is whom we connect to; None when the peer connected to us."""
        tls = cast(
            TlsSocket,
            context.wrap_socket(
                peer_socket,
                server_side=server_hostname is None,
                do_handshake_on_connect=False,
                server_hostname=server_hostname,
            ),
        )
        super().__init__(
            loop, host, peer, tls, pool, _read_and_send, frame_limit, stop_reading_above
        )
        self._tls = tls
        self._secured_host = host
        self._shaking = True
        self._handshake_within_s = handshake_within_s
        self._is_receiving = False
        self._deadline: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin the handshake."""
        self._deadline = self._loop.call_later(self._handshake_within_s, self._too_late)
        self._loop.add_reader(self._fd, self._shake)
        if self._tls.server_side:
            return  # the peer begins
        self._loop.call_soon(self._shake)

    def abandon(self, reason: str) -> None:
        """Close at once, whatever is queued."""
        self._end_handshake()
        super().abandon(reason)

    def flush(self) -> None:
        """Write what is queued, unless the socket is known to be full or not secured yet."""
        if not self._shaking:
            super().flush()

    def _shake(self) -> None:
        if self._gone or not self._shaking:
            return
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._loop.remove_writer(self._fd)
            return
        except ssl.SSLWantWriteError:
            self._loop.add_writer(self._fd, self._shake)
            return
        except (OSError, ValueError) as error:
            self._refuse(_why(error))
            return
        self._end_handshake()
        if self._resetting or self._closing is not None:
            self.abandon(self._closing or "closed")
            return
        self._secured_host.connection_secured(self.peer, self._certificate())
        self._read_if_wanted()
        # The peer may have sent frames right behind its part of the handshake.
        self._loop.call_soon(self._receive)

    def _certificate(self) -> bytes | None:
        if not self._tls.server_side:
            return None
        return self._tls.getpeercert(binary_form=True)

    def _end_handshake(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if self._shaking:
            self._shaking = False
            self._loop.remove_reader(self._fd)
            self._loop.remove_writer(self._fd)

    def _too_late(self) -> None:
        self.was_ended_by_peer = False
        self._refuse(f"no TLS handshake within {self._handshake_within_s:g} s")

    def _refuse(self, why: str) -> None:
        if not self._gone:
            if self._closing is None:
                self._host.connection_dropped(self.peer, why)
            self.abandon(why)

    def _receive(self) -> None:
        self._is_receiving = False
        if self._reading and not self._gone:
            self._on_readable()

    def _on_readable(self) -> None:
        super()._on_readable()
        if not self._gone and self._tls.wants_to_write and not self._waiting_to_write:
            self._waiting_to_write = True
            self._loop.add_writer(self._fd, self._write)

    def _write(self) -> None:
        super()._write()
        if not self._gone and self._tls.wants_to_write:
            self._tls.wants_to_write = False
            self._receive_soon()

    def _take_turn(self) -> None:
        super()._take_turn()
        self._receive_pending()

    def _read_if_wanted(self) -> None:
        if self._shaking:
            return
        super()._read_if_wanted()
        self._receive_pending()

    def _receive_pending(self) -> None:
        if self._reading and not self._turn_due and not self._gone and self._tls.pending():
            self._receive_soon()

    def _receive_soon(self) -> None:
        if not self._is_receiving:
            self._is_receiving = True
            self._loop.call_soon(self._receive)


def _why(error: OSError | ValueError) -> str:
    """What went wrong in a handshake, in words that help."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the peer's certificate is not accepted: {error.verify_message}"
    reason = getattr(error, "reason", None) or str(error)
    if reason in ("HTTP_REQUEST", "WRONG_VERSION_NUMBER", "UNKNOWN_PROTOCOL"):
        return "the TLS handshake failed: the peer does not speak TLS"
    if isinstance(error, ssl.SSLEOFError):
        return "the TLS handshake failed: the peer hung up"
    return f"the TLS handshake failed: {reason.replace('_', ' ').lower()}"
