"""What happened in a run, line by line, and the hash by which two runs are compared.

Invariant  The hash covers every line, whether lines are kept or not.
Invariant  A line holds virtual time and names from the run only: the same run gives the same
           lines in any process.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from tidelog.simulator.world.timeline import Timeline

TAIL_LINES: Final = 200


class Trace:
    """The lines of one run; `reader` hears each of them as it comes about."""

    def __init__(self, timeline: Timeline, reader: Callable[[str], None] | None = None) -> None:
        self.lines = 0
        self._timeline = timeline
        self._reader = reader
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._hash = blake2b(digest_size=16)

    def note(self, line: str) -> None:
        """Add a line; its moment is now."""
        self.lines += 1
        entry = f"{self._timeline.now_us} {line}"
        self._hash.update(entry.encode())
        self._tail.append(entry)
        if self._reader is not None:
            self._reader(readable(entry))

    @property
    def digest(self) -> str:
        """Equal for equal runs."""
        return self._hash.hexdigest()

    def tail(self) -> Iterable[str]:
        """The last lines, for a report."""
        return map(readable, self._tail)


def readable(entry: str) -> str:
    """A line with its moment in seconds."""
    moment, _, words = entry.partition(" ")
    return f"{int(moment) / 1_000_000:13.6f} {words}"
