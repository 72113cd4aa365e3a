"""File bytes to a socket: the one place that knows what only some systems can do.

Linux sends straight from the page cache and can hold a header back until the file bytes follow.
Elsewhere, and for files that are not on a real disk, bytes are read and sent.

Invariant  A call sends at most `count` bytes and says how many; 0 means that the file ends before
           `position`; a socket that takes nothing raises BlockingIOError.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Final, Protocol

from tidelog.protocol.parts import ReadableFile
from tidelog.shell.os_filesystem import OsFile

_READ_AT_A_TIME: Final = 262_144


class Transfer(Protocol):
    """How file bytes reach a socket on this system."""

    @property
    def more_follows(self) -> int:
        """The `send` flag for bytes that the next call completes; 0 when there is none."""
        ...

    def send(self, peer: socket.socket, file: ReadableFile, position: int, count: int) -> int: ...


class ReadAndSend:
    """Works everywhere."""

    more_follows: Final = 0

    def send(self, peer: socket.socket, file: ReadableFile, position: int, count: int) -> int:
        content = file.read(position, min(count, _READ_AT_A_TIME))
        return peer.send(content) if content else 0


class Sendfile:
    """The kernel moves the bytes; they never enter this process."""

    more_follows: Final = socket.MSG_MORE if sys.platform == "linux" else 0

    def send(self, peer: socket.socket, file: ReadableFile, position: int, count: int) -> int:
        if not isinstance(file, OsFile):
            return _read_and_send.send(peer, file, position, count)
        descriptor = file.borrow_descriptor()
        try:
            return os.sendfile(peer.fileno(), descriptor, position, count)
        finally:
            file.give_descriptor_back()


_read_and_send: Final = ReadAndSend()


def best_transfer() -> Transfer:
    """The fastest way this system knows."""
    return Sendfile() if sys.platform == "linux" else _read_and_send
