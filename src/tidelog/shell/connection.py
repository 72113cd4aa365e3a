"""One peer's socket: frames in, frames out, nothing decided.

Own non-blocking sockets on the loop's readiness callbacks: one receive per turn, all frames it
completes handed over back to back, their answers written with one system call.

Invariant  Nothing a peer does reaches beyond its own connection: it takes a bounded share of each
           loop tick, and while it leaves answers unread it is not read either. (A peer that we
           ask is always read: two nodes that both wait to be read would wait for ever.)
Invariant  Sockets are touched only in callbacks of the loop, never while effects are carried
           out, so the node is never stepped from inside a step.
Invariant  `connection_gone` is reported exactly once, after the last byte.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, NamedTuple, Protocol

from tidelog.model.errors import TidelogError
from tidelog.protocol.frame import MalformedRequest
from tidelog.protocol.parts import Part
from tidelog.shell.inbox import Inbox
from tidelog.shell.outbox import Outbox
from tidelog.shell.slabs import SlabPool
from tidelog.shell.transfer import Transfer

FRAMES_PER_TURN: Final = 64
STOP_READING_ABOVE: Final = 1_048_576
READ_AGAIN_BELOW: Final = 262_144
ALWAYS_READ: Final = 1 << 63
SILENT: Final = frozenset({errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH})
"""Errors by which the peer has said nothing."""
_DISCARD_AT_MOST: Final = 1_048_576
_FORGET_UNSENT: Final = struct.pack("ii", 1, 0)


class Peer(NamedTuple):
    """Who is at the other end, and of which listener."""

    connection: int
    listener: str
    host: str


class ConnectionHost(Protocol):
    """Whoever owns the connections."""

    def frame_arrived(self, peer: Peer, frame: memoryview) -> None:
        """Handle one message; `frame` may be written to and is gone afterwards."""
        ...

    def connection_dropped(self, peer: Peer, cause: str) -> None:
        """We give this connection up, for the peer's sake or ours."""
        ...

    def connection_gone(self, peer: Peer, reason: str) -> None:
        """The socket is closed."""
        ...


class Connection:
    """The two directions of one socket and the conditions under which they move."""

    __slots__ = (
        "_closing",
        "_fd",
        "_gone",
        "_host",
        "_inbox",
        "_loop",
        "_outbox",
        "_outbox_full",
        "_paused_by_node",
        "_reading",
        "_resetting",
        "_socket",
        "_stop_reading_above",
        "_turn_due",
        "_waiting_to_write",
        "active",
        "flush_due",
        "idle_since_ms",
        "peer",
        "was_ended_by_peer",
    )

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        host: ConnectionHost,
        peer: Peer,
        peer_socket: socket.socket,
        pool: SlabPool,
        transfer: Transfer,
        frame_limit: int,
        stop_reading_above: int = STOP_READING_ABOVE,
    ) -> None:
        self._loop = loop
        self._host = host
        self.peer = peer
        self._socket = peer_socket
        self._fd = peer_socket.fileno()
        self._inbox = Inbox(pool, frame_limit)
        self._outbox = Outbox(transfer)
        self._stop_reading_above = stop_reading_above
        self._reading = False
        self._paused_by_node = False
        self._outbox_full = False
        self._waiting_to_write = False
        self._turn_due = False
        self._closing: str | None = None
        self._gone = False
        self._resetting = False
        self.flush_due = False
        self.active = True
        self.idle_since_ms = 0
        self.was_ended_by_peer = True
        """Once it is gone: whether the peer ended it, and is not merely silent or given up."""

    @property
    def queued_bytes(self) -> int:
        """What the peer has not taken yet."""
        return self._outbox.queued_bytes

    @property
    def pending_bytes(self) -> int:
        """Received and not handled."""
        return self._inbox.pending_bytes

    @property
    def is_closing(self) -> bool:
        return self._closing is not None

    def start(self) -> None:
        """Begin to read."""
        self._read_if_wanted()

    def send(self, parts: Sequence[Part]) -> None:
        """Queue one message; `flush` writes it."""
        if self._closing is not None:
            return
        try:
            self._outbox.add(parts)
        except TidelogError as error:
            self._drop(str(error))

    def close(self, reason: str) -> None:
        """Read no more; close once everything queued is written."""
        if self._closing is None:
            self._closing = reason
            self._read_if_wanted()

    def limit_frames(self, most_bytes: int) -> None:
        """Take no larger frames from now on."""
        self._inbox.frame_limit = most_bytes

    def pause_reading(self) -> None:
        self._paused_by_node = True
        self._read_if_wanted()

    def resume_reading(self) -> None:
        self._paused_by_node = False
        self._read_if_wanted()

    def flush(self) -> None:
        """Write what is queued, unless the socket is known to be full."""
        self.flush_due = False
        if not self._waiting_to_write and not self._gone:
            self._write()

    def reset(self, reason: str) -> None:
        """Neither read nor write any more; let the kernel forget what is under way to the peer."""
        if self._gone or self._resetting:
            return
        self._resetting = True
        self.was_ended_by_peer = False
        self._closing = self._closing or reason
        self._read_if_wanted()
        with suppress(OSError):
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _FORGET_UNSENT)
        # Not here: we may be in the middle of handing over our frames.
        self._loop.call_soon(self.abandon, reason)

    def abandon(self, reason: str) -> None:
        """Close at once, whatever is queued."""
        if self._gone:
            return
        self._gone = True
        self._closing = self._closing or reason
        self._read_if_wanted()
        if self._waiting_to_write:
            self._loop.remove_writer(self._fd)
        self._inbox.clear()
        self._outbox.clear()
        self._socket.close()
        self._host.connection_gone(self.peer, self._closing)

    def _on_readable(self) -> None:
        # uvloop reports a reset once and never again, even while received bytes are left.
        if reset := self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            self._broke("receiving", OSError(reset, os.strerror(reset)))
            return
        if self._turn_due:
            return
        try:
            received = self._inbox.receive(self._socket)
        except OSError as error:
            self._broke("receiving", error)
            return
        if received == 0:
            self.abandon("the peer closed the connection")
            return
        self._take_turn()

    def _broke(self, doing: str, error: OSError) -> None:
        self.was_ended_by_peer = error.errno not in SILENT
        self.abandon(f"{doing} failed: {error.strerror or error}")

    def _take_turn(self) -> None:
        """Hand over the frames that are there, a bounded number of them."""
        self._turn_due = False
        inbox = self._inbox
        outbox = self._outbox
        more_frames = True
        try:
            for _ in range(FRAMES_PER_TURN):
                if not self._reading or outbox.queued_bytes > self._stop_reading_above:
                    break
                frame = inbox.next_frame()
                if frame is None:
                    more_frames = False
                    break
                self.active = True
                self._host.frame_arrived(self.peer, frame)
        except MalformedRequest as error:
            self._drop(str(error))
        inbox.settle()
        self.flush()
        if outbox.queued_bytes > self._stop_reading_above:
            self._outbox_full = True
            self._read_if_wanted()
        elif more_frames:
            self._schedule_turn()

    def _write(self) -> None:
        if self._resetting:
            return
        queued = self._outbox.queued_bytes
        try:
            written = self._outbox.write(self._socket)
        except OSError as error:
            self._broke("sending", error)
            return
        except TidelogError as error:
            self._drop(str(error))
            self.abandon(str(error))
            return
        left = self._outbox.queued_bytes
        if left < queued:
            self.active = True
        if written and self._closing is not None:
            self._say_goodbye()
            return
        if written is self._waiting_to_write:
            if written:
                self._loop.remove_writer(self._fd)
            else:
                self._loop.add_writer(self._fd, self._write)
            self._waiting_to_write = not written
        if self._outbox_full and left <= READ_AGAIN_BELOW:
            self._outbox_full = False
            self._read_if_wanted()

    def _drop(self, cause: str) -> None:
        if self._closing is None:
            self._host.connection_dropped(self.peer, cause)
            self.close(cause)

    def _read_if_wanted(self) -> None:
        wanted = not (self._paused_by_node or self._outbox_full or self._closing is not None)
        if wanted is self._reading:
            return
        self._reading = wanted
        if not wanted:
            self._loop.remove_reader(self._fd)
            return
        self._loop.add_reader(self._fd, self._on_readable)
        self._schedule_turn()

    def _schedule_turn(self) -> None:
        """Go on with what has been received once the others have had their turn."""
        if self._reading and not self._turn_due and self._inbox.pending_bytes:
            self._turn_due = True
            self._loop.call_soon(self._take_turn)

    def _say_goodbye(self) -> None:
        """Let the peer see everything it was sent: unread input would reset the connection."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            self._socket.recv(_DISCARD_AT_MOST)
        self.abandon("closed")
