"""Where announced events go: a readable line for people, a JSON line for programs.

Invariant  A journal that cannot be written never hinders the node.
Invariant  The JSON file and the one before it stay below `size_limit` bytes each.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.observe.events import Event
from tidelog.observe.journal import as_dict, as_line, timestamp
from tidelog.shell.os_errors import disk_error

_CLOSED: Final = -1
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC


class EventJournal:
    """Writes each event at once, so that a killed process has said everything it knew."""

    def __init__(
        self, readable_fd: int, json_path: str | None = None, size_limit: int = 16_777_216
    ) -> None:
        self._readable_fd = readable_fd
        self._json_path = json_path
        self._size_limit = size_limit
        self._json_fd = _CLOSED
        self._json_size = 0
        if json_path is not None:
            self._open(json_path)

    def write(self, event: Event, now: Now) -> None:
        self._say(as_line(event, now.wall_ms))
        if self._json_path is None:
            return
        entry = json.dumps(as_dict(event, now.wall_ms), separators=(",", ":")) + "\n"
        with suppress(OSError, DiskError):
            if self._json_size + len(entry) > self._size_limit:
                fd, self._json_fd, self._json_size = self._json_fd, _CLOSED, 0
                os.close(fd)
                os.replace(self._json_path, self._json_path + ".1")
            if self._json_fd == _CLOSED:
                self._open(self._json_path)
            self._json_size += os.write(self._json_fd, entry.encode())

    def say(self, text: str, now: Now) -> None:
        """A line that is no event: what people wait for when they start a node."""
        self._say(f"{timestamp(now.wall_ms)} {text}")

    def close(self) -> None:
        self._json_path = None
        if self._json_fd != _CLOSED:
            os.close(self._json_fd)
            self._json_fd = _CLOSED

    def _say(self, line: str) -> None:
        with suppress(OSError):
            os.write(self._readable_fd, f"{line}\n".encode(errors="backslashreplace"))

    def _open(self, path: str) -> None:
        try:
            self._json_fd = os.open(path, _FLAGS, 0o644)
            self._json_size = os.fstat(self._json_fd).st_size
        except OSError as error:
            raise disk_error("open", path, error) from error
