"""What a peer has sent and nobody has handled yet: bytes in, frames out, in place.

Invariant  Memory follows what has arrived, never what a length field claims: little is kept in a
           buffer of just that size, more in a slab, and a slab is doubled only when it is full.
Invariant  A frame is a view into the buffer, good until `settle`, `receive` or `clear`.
"""

from __future__ import annotations

import socket
from typing import Final

from tidelog.protocol.frame import frame_bounds
from tidelog.shell.slabs import SlabPool

_COPY_AT_MOST: Final = 131_072


class Inbox:
    """The receiving side of one connection."""

    __slots__ = ("_end", "_pool", "_rest", "_slab", "_start", "frame_limit")

    def __init__(self, pool: SlabPool, frame_limit: int) -> None:
        self._pool = pool
        self.frame_limit = frame_limit
        """The largest frame that the peer may send."""
        self._slab: memoryview | None = None
        self._start = 0
        self._end = 0
        self._rest: bytes | None = None

    @property
    def pending_bytes(self) -> int:
        """Received and not handled."""
        return self._end - self._start if self._rest is None else len(self._rest)

    def receive(self, peer: socket.socket) -> int | None:
        """Take what the peer has sent: the number of bytes, 0 at its end, None for nothing yet."""
        slab = self._with_room()
        try:
            received = peer.recv_into(slab[self._end :])
        except BlockingIOError:
            return None
        self._end += received
        return received

    def next_frame(self) -> memoryview | None:
        """The next whole frame; `MalformedRequest` when its length is not allowed."""
        slab = self._slab
        if slab is None:
            if self._rest is None:
                return None
            slab = self._with_room()
        bounds = frame_bounds(slab, self._start, self._end, self.frame_limit)
        if bounds is None:
            return None
        self._start = bounds[1]
        return slab[bounds[0] : bounds[1]]

    def settle(self) -> None:
        """The frames given out are done with: keep the rest, and the slab only if it must be."""
        slab = self._slab
        if slab is None:
            return
        rest = self._end - self._start
        if rest > _COPY_AT_MOST:
            return
        if rest:
            self._rest = bytes(slab[self._start : self._end])
        self._let_go(slab)

    def clear(self) -> None:
        """Forget everything; nothing more will be received."""
        self._rest = None
        if self._slab is not None:
            self._let_go(self._slab)

    def _let_go(self, slab: memoryview) -> None:
        self._slab = None
        self._start = self._end = 0
        self._pool.give_back(slab)

    def _with_room(self) -> memoryview:
        slab = self._slab
        if slab is None:
            slab = self._slab = self._pool.take()
            rest = self._rest
            if rest is not None:
                self._rest = None
                self._end = len(rest)
                slab[: self._end] = rest
            return slab
        if self._start:
            self._end -= self._start
            slab[: self._end] = slab[self._start : self._start + self._end]
            self._start = 0
        if self._end == len(slab):
            larger = self._pool.take(2 * len(slab))
            larger[: self._end] = slab
            self._pool.give_back(slab)
            slab = self._slab = larger
        return slab
