"""The events of a node from its journal: what is kept, then what is added, as a stream.

Invariant  Events are told in the order of their numbers, each once, also when the file is replaced
           meanwhile; where some are gone, the stream says so.
Invariant  Files are read away from the loop, a piece at a time, as fast as the reader takes them.
"""

from __future__ import annotations

import asyncio
import os
from typing import Final

from tidelog.http.messages import Chunks, json_text
from tidelog.http.server_sent_events import (
    STILL_HERE,
    STILL_HERE_S,
    event_text,
    wait_or_timeout,
)
from tidelog.shell.event_journal import BEFORE, EventJournal, last_sequence

_PIECE_BYTES: Final = 65_536
_NUMBERED: Final = b'{"seq":'


class EventHistory:
    """Everything that is in the journal, for as many readers as there are."""

    def __init__(self, journal: EventJournal, path: str) -> None:
        self._journal = journal
        self._path = path
        self._bells: set[asyncio.Event] = set()
        journal.tell(self._ring)

    @property
    def newest(self) -> int:
        """The number of the latest event."""
        return self._journal.last_sequence

    def _ring(self) -> None:
        for bell in self._bells:
            bell.set()

    async def events(self, after: int, *, follow: bool = True) -> Chunks:
        """Server-sent events with numbers above `after`: those that are kept, with `follow`
        also those that happen, for as long as somebody reads them."""
        if after > self.newest:
            after = 0
        loop, bell = asyncio.get_running_loop(), asyncio.Event()
        reader = JournalReader(self._path, after)
        reading: asyncio.Future[list[tuple[int, str]]] | None = None
        self._bells.add(bell)
        told, asked = after, after > 0
        try:
            while True:
                bell.clear()
                reading = loop.run_in_executor(None, reader.read)
                lines = await asyncio.shield(reading)
                for number, line in lines:
                    if asked and number > told + 1:
                        gap = json_text({"after": told, "oldest": number})
                        yield event_text(gap, "gap")
                    told, asked = max(told, number), True
                    yield event_text(line, event_id=number)
                if not lines and not follow:
                    return
                if not lines and not await wait_or_timeout(bell, STILL_HERE_S):
                    yield STILL_HERE
        finally:
            self._bells.discard(bell)
            if reading is None or reading.done():
                reader.close()
            else:  # a thread is still at it
                reading.add_done_callback(reader.close_behind)


class JournalReader:
    """Reads on behind an event, from the file before into the current one; blocks."""

    def __init__(self, path: str, after: int) -> None:
        self._path = path
        self._read_up_to = after
        self._fd: int | None = None
        self._position = 0

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def close_behind(self, reading: asyncio.Future[list[tuple[int, str]]]) -> None:
        """Close when a read has ended for which nobody waits any more, well or not."""
        if not reading.cancelled():
            reading.exception()
        self.close()

    def read(self) -> list[tuple[int, str]]:
        """The next lines with their numbers; empty when there are none for now."""
        while True:
            lines = self._read_piece()
            if not lines:
                following = self._open_following()
                if following is None:
                    return []
                lines = self._read_piece()  # written just before the file was replaced
                if lines:
                    os.close(following)
                else:
                    self._begin(following)
            behind = [(number, line) for number, line in lines if number > self._read_up_to]
            if behind:
                self._read_up_to = behind[-1][0]
                return behind

    def _read_piece(self) -> list[tuple[int, str]]:
        if self._fd is None:
            return []
        size = _PIECE_BYTES
        while True:
            piece = os.pread(self._fd, size, self._position)
            end = piece.rfind(b"\n") + 1
            if end or len(piece) < size:
                break
            size *= 2
        self._position += end
        lines = piece[:end].splitlines()
        return [(_number(line), line.decode("utf-8", "replace")) for line in lines]

    def _begin(self, fd: int) -> None:
        self.close()
        self._fd = fd
        self._position = _start_behind(fd, self._read_up_to)

    def _open_following(self) -> int | None:
        """The file to go on with, if that is another one than ours."""
        current = self._open_other(self._path)
        if current is not None and last_sequence(self._path + BEFORE) > self._read_up_to:
            before = self._open_other(self._path + BEFORE)
            if before is not None:
                os.close(current)
                return before
        return current

    def _open_other(self, path: str) -> int | None:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        if self._fd is not None and os.path.samestat(os.fstat(self._fd), os.fstat(fd)):
            os.close(fd)
            return None
        return fd


def _number(line: bytes) -> int:
    """0 for a line that has none."""
    digits = line[len(_NUMBERED) : line.find(b",")]
    return int(digits) if line.startswith(_NUMBERED) and digits.isdigit() else 0


def _start_behind(fd: int, after: int) -> int:
    """Where the first line above a number begins; numbers rise, so halves are enough to look at."""
    low, high = 0, os.fstat(fd).st_size
    while low < high:
        middle = (low + high) // 2
        start, end, number = _line_from(fd, middle)
        if start < high and number <= after:
            low = end
        else:
            high = middle
    return low


def _line_from(fd: int, position: int) -> tuple[int, int, int]:
    """The first line that begins at or behind a position: its start, its end and its number."""
    size, begin = _PIECE_BYTES, max(0, position - 1)
    while True:
        piece = os.pread(fd, size, begin)
        start = 0 if position == 0 else piece.find(b"\n") + 1
        end = piece.find(b"\n", start) + 1 if start or position == 0 else 0
        if end or len(piece) < size:
            break
        size *= 2
    if not end:
        whole = os.fstat(fd).st_size
        return whole, whole, 0
    return begin + start, begin + end, _number(piece[start:end])
