"""Those who wait for something to happen in a partition.

Invariant  A consumer's fetch waits for the high watermark, a follower's for the end of the log;
           a change of role concerns both.
"""

from __future__ import annotations

from typing import Protocol


class Watcher(Protocol):
    """Somebody who waits; `wants_log_end` must not change while it watches."""

    @property
    def wants_log_end(self) -> bool:
        """Whether it may read to the end of the log, as a follower does."""
        ...

    def partition_moved(self, new_bytes: int) -> None:
        """So many bytes became readable to it; with 0, something else happened: look again."""
        ...

    def has_news(self) -> None:
        """Nothing it waits for, but its next answer has something to tell."""
        ...


class Watchers:
    """The watchers of one partition."""

    __slots__ = ("_consumers", "_followers")

    def __init__(self) -> None:
        self._consumers: dict[Watcher, None] = {}
        self._followers: dict[Watcher, None] = {}

    def __len__(self) -> int:
        return len(self._consumers) + len(self._followers)

    def add(self, watcher: Watcher) -> None:
        """Tell `watcher` whenever something moves."""
        side = self._followers if watcher.wants_log_end else self._consumers
        side[watcher] = None

    def remove(self, watcher: Watcher) -> None:
        """Stop telling; harmless for somebody who does not watch."""
        self._followers.pop(watcher, None)
        self._consumers.pop(watcher, None)

    def clear(self) -> None:
        self._followers.clear()
        self._consumers.clear()

    def end_moved(self, new_bytes: int) -> None:
        """The log grew."""
        if self._followers:
            for watcher in tuple(self._followers):
                watcher.partition_moved(new_bytes)

    def high_watermark_moved(self, new_bytes: int) -> None:
        """The high watermark moved over so many bytes; 0 when nobody counted them."""
        if self._consumers:
            for watcher in tuple(self._consumers):
                watcher.partition_moved(new_bytes)
        if self._followers:
            for watcher in tuple(self._followers):
                watcher.has_news()

    def everything_moved(self) -> None:
        """A role, the start of the log, the directory: let everyone look again."""
        for watcher in (*self._followers, *self._consumers):
            watcher.partition_moved(0)
