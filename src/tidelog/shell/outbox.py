"""Answers on their way to a peer: queued as parts, written with as few system calls as possible.

Invariant  Bytes leave in the order in which the answers were added.
Invariant  A file whose bytes are queued stays readable until they are sent or given up, whatever
           its owner does with it meanwhile.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Final, final

from tidelog.model.errors import TidelogError
from tidelog.protocol.parts import FileRegion, Part
from tidelog.shell.os_filesystem import OsFile
from tidelog.shell.transfer import Transfer
from tidelog.storage.filesystem import Buffer

_LENGTH: Final = struct.Struct(">i")
_READ_BELOW: Final = 16_384
_MOST_BUFFERS: Final = 128
_BYTES_PER_TURN: Final = 2_097_152
_VANISHED: Final = "the file was cut while its bytes were being sent"


class RegionVanished(TidelogError):
    """A file ends before bytes that were promised: the answer cannot be completed."""


@final
class _QueuedRegion:
    """What is left to send of a part of a file."""

    __slots__ = ("file", "position", "remaining")

    def __init__(self, region: FileRegion) -> None:
        self.file = region.file
        self.position = region.position
        self.remaining = region.length
        if isinstance(self.file, OsFile):
            self.file.hold()

    def release(self) -> None:
        if isinstance(self.file, OsFile):
            self.file.close()


class Outbox:
    """The sending side of one connection."""

    __slots__ = ("_queue", "_transfer", "queued_bytes")

    def __init__(self, transfer: Transfer) -> None:
        self._transfer = transfer
        self._queue: deque[Buffer | _QueuedRegion] = deque()
        self.queued_bytes = 0

    def add(self, parts: Sequence[Part]) -> None:
        """Queue one answer: its length, then its parts. `DiskError` when a file is unreadable."""
        entries: list[Buffer | _QueuedRegion] = [b""]
        length = 0
        try:
            for part in parts:
                if isinstance(part, FileRegion):
                    length += part.length
                    entries.append(
                        _read_small(part) if part.length < _READ_BELOW else _QueuedRegion(part)
                    )
                else:
                    length += len(part)
                    entries.append(part)
        except TidelogError:
            _release(entries)
            raise
        entries[0] = _LENGTH.pack(length)
        self._queue += entries
        self.queued_bytes += length + 4

    def write(self, peer: socket.socket) -> bool:
        """Write as much as one turn allows; True when nothing is left."""
        queue = self._queue
        budget = _BYTES_PER_TURN
        try:
            while queue and budget > 0:
                head = queue[0]
                if type(head) is _QueuedRegion:
                    budget -= self._write_region(peer, head, budget)
                else:
                    sent, whole = self._write_buffers(peer)
                    if not whole:
                        return False
                    budget -= sent
        except BlockingIOError:
            return False
        return not queue

    def clear(self) -> None:
        """Give up everything that is queued."""
        _release(self._queue)
        self._queue.clear()
        self.queued_bytes = 0

    def _write_buffers(self, peer: socket.socket) -> tuple[int, bool]:
        """Send the buffers before the next file region: how much, and whether that was all."""
        queue = self._queue
        buffers: list[Buffer] = []
        flags = 0
        for part in islice(queue, _MOST_BUFFERS):
            if type(part) is _QueuedRegion:
                flags = self._transfer.more_follows
                break
            buffers.append(part)
        sent = peer.sendmsg(buffers, (), flags)
        self.queued_bytes -= sent
        left = sent
        for buffer in buffers:
            if left < len(buffer):
                queue[0] = memoryview(buffer)[left:]
                return sent, False
            left -= len(buffer)
            queue.popleft()
        return sent, True

    def _write_region(self, peer: socket.socket, region: _QueuedRegion, budget: int) -> int:
        count = min(region.remaining, budget)
        sent = self._transfer.send(peer, region.file, region.position, count)
        if sent == 0:
            raise RegionVanished(_VANISHED)
        region.position += sent
        region.remaining -= sent
        self.queued_bytes -= sent
        if region.remaining == 0:
            self._queue.popleft()
            region.release()
        return sent


def _read_small(region: FileRegion) -> bytes:
    content = region.file.read(region.position, region.length)
    if len(content) < region.length:
        raise RegionVanished(_VANISHED)
    return content


def _release(entries: Iterable[Buffer | _QueuedRegion]) -> None:
    for entry in entries:
        if type(entry) is _QueuedRegion:
            entry.release()
