"""Receive buffers, lent and taken back, shared by all connections.

A request is handled as soon as it is complete, so almost always one slab serves every
connection in turn. Fresh buffers would cost a page fault for every 4 kB received.

Invariant  A slab belongs to the pool or to exactly one borrower.
Invariant  The pool keeps at most `idle_limit` bytes; what exceeds it goes back to the system.
"""

from __future__ import annotations

from typing import Final

SLAB_SIZE: Final = 1_114_112
"""One MiB and a little more: the largest batch of a client with default settings, framed."""


class SlabPool:
    """Buffers of `SLAB_SIZE` and its doubles."""

    def __init__(self, idle_limit: int = 8 * SLAB_SIZE) -> None:
        self._idle: dict[int, list[memoryview]] = {}
        self._idle_limit = idle_limit
        self.idle_bytes = 0

    def take(self, size: int = SLAB_SIZE) -> memoryview:
        """A writable buffer of `size` bytes, which is `SLAB_SIZE` doubled any number of times."""
        idle = self._idle.get(size)
        if idle:
            self.idle_bytes -= size
            return idle.pop()
        return memoryview(bytearray(size))

    def give_back(self, slab: memoryview) -> None:
        size = len(slab)
        if self.idle_bytes + size <= self._idle_limit:
            self.idle_bytes += size
            self._idle.setdefault(size, []).append(slab)
