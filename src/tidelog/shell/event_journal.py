"""Where announced events go: a readable line for people, a JSON line for programs.

Invariant  A journal that cannot be written never hinders the node.
Invariant  Each file, and the one before it, stays below `size_limit` bytes, and no line is lost
           while the one takes the other's place.
Invariant  The numbers of events rise from line to line, through restarts and from file to file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.observe.events import Event
from tidelog.observe.journal import as_dict, as_line, timestamp
from tidelog.shell.os_errors import disk_error

BEFORE: Final = ".1"
"""Behind the name of a file: the one that came before it."""
_CLOSED: Final = -1
_FLAGS: Final = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
_STDOUT: Final = 1
_LONGEST_LINE: Final = 1_048_576
_SIZE_LIMIT: Final = 16_777_216


class EventJournal:
    """Writes each event at once, so that a killed process has said everything it knew."""

    def __init__(
        self,
        node_id: int,
        readable_fd: int,
        json_path: str | None = None,
        *,
        readable_path: str | None = None,
        size_limit: int = _SIZE_LIMIT,
    ) -> None:
        """With `readable_path`, the file behind `readable_fd` and stdout is kept small, too."""
        self._node_id = node_id
        self._readable_fd = readable_fd
        self._readable_path = readable_path
        self._json_path = json_path
        self._size_limit = size_limit
        self._json_fd = _CLOSED
        self._json_size = 0
        self._written: Callable[[], None] = _nobody_listens
        self.written_by_kind: Counter[str] = Counter()
        """How many events this process has written."""
        self.last_sequence = 0
        """The number of the newest event."""
        if json_path is not None:
            self._open(json_path)
            self.last_sequence = last_sequence(json_path) or last_sequence(json_path + BEFORE)

    def tell(self, written: Callable[[], None]) -> None:
        """From now on call `written` behind each event that can be read."""
        self._written = written

    def write(self, event: Event, now: Now) -> None:
        self.written_by_kind[type(event).__name__] += 1
        self._say(as_line(event, self._node_id, now.wall_ms))
        if self._json_path is None:
            return
        self.last_sequence += 1
        fields = as_dict(event, self._node_id, now.wall_ms, self.last_sequence)
        entry = (json.dumps(fields, separators=(",", ":")) + "\n").encode()
        if self._json_size + len(entry) > self._size_limit:
            self._replace_json(self._json_path)
        with suppress(OSError):
            if os.write(self._json_fd, entry) == len(entry):
                self._json_size += len(entry)
            else:  # the disk is full
                os.ftruncate(self._json_fd, self._json_size)
        self._written()

    def say(self, text: str, now: Now) -> None:
        """A line that is no event: what people wait for when they start a node."""
        self._say(f"{timestamp(now.wall_ms)} {text}")

    def close(self) -> None:
        self._json_path = None
        if self._json_fd != _CLOSED:
            os.close(self._json_fd)
            self._json_fd = _CLOSED

    def _say(self, line: str) -> None:
        text = f"{line}\n".encode(errors="backslashreplace")
        if self._readable_path is not None:
            with suppress(OSError):  # moved away by somebody, perhaps: what is behind still holds
                self._replace_if_full(self._readable_path, len(text))
        with suppress(OSError):
            os.write(self._readable_fd, text)

    def _replace_if_full(self, path: str, more: int) -> None:
        """Others write there as well, a dying interpreter for instance: descriptors stay, and what
        is behind them changes in one step."""
        behind, named = os.fstat(self._readable_fd), os.stat(path)
        if behind.st_size + more <= self._size_limit or not os.path.samestat(behind, named):
            return
        os.replace(path, path + BEFORE)
        fresh = os.open(path, _FLAGS, 0o644)
        try:
            if os.path.samestat(behind, os.fstat(_STDOUT)):
                os.dup2(fresh, _STDOUT)
            os.dup2(fresh, self._readable_fd)
        finally:
            os.close(fresh)

    def _replace_json(self, path: str) -> None:
        """Begin another file; where that cannot be done, go on in this one."""
        with suppress(OSError, DiskError):
            os.replace(path, path + BEFORE)
            before = self._json_fd
            self._open(path)
            os.close(before)

    def _open(self, path: str) -> None:
        try:
            self._json_fd = os.open(path, _FLAGS, 0o644)
            self._json_size = _end_of_last_line(self._json_fd)
            os.ftruncate(self._json_fd, self._json_size)
        except OSError as error:
            raise disk_error("open", path, error) from error


def last_sequence(path: str) -> int:
    """The number of the newest event in a journal; 0 where there is none."""
    with suppress(OSError, ValueError, LookupError, TypeError), open(path, "rb") as journal:
        size = journal.seek(0, os.SEEK_END)
        journal.seek(max(0, size - _LONGEST_LINE))
        lines = journal.read().rstrip(b"\n")
        return int(json.loads(lines[lines.rfind(b"\n") + 1 :])["seq"])
    return 0


def _end_of_last_line(fd: int) -> int:
    """Where a file ends without the line that a crash tore."""
    size = os.fstat(fd).st_size
    start = max(0, size - _LONGEST_LINE)
    tail = os.pread(fd, size - start, start)
    return start + tail.rfind(b"\n") + 1


def _nobody_listens() -> None:
    """Nobody has asked to be told."""
