"""Nodes that follow the metadata log without a vote, as far as the leader has heard of them."""

from __future__ import annotations

from typing import Final

from tidelog.model.time import Now
from tidelog.quorum.description import ReplicaProgress
from tidelog.quorum.fetch_progress import FetchProgress, after_fetch
from tidelog.quorum.messages import ReplicaKey

FORGOTTEN_AFTER_MS: Final = 300_000


class Observers:
    """The progress of each observer, by node and directory; forgotten when it falls silent."""

    def __init__(self) -> None:
        self._observers: dict[ReplicaKey, FetchProgress] = {}

    def fetched(self, replica: ReplicaKey, offset: int, leader_end: int, now: Now) -> None:
        """An observer asks from an offset on, so it has everything below it."""
        if replica.id >= 0:
            before = self._observers.get(replica)
            self._observers[replica] = after_fetch(before, offset, leader_end, now)

    def find(self, replica: ReplicaKey) -> FetchProgress | None:
        """The progress of one of them."""
        return self._observers.get(replica)

    def forget(self, replica: ReplicaKey) -> None:
        """It votes from now on."""
        self._observers.pop(replica, None)

    def progress(self, now: Now) -> tuple[ReplicaProgress, ...]:
        """The observers that were heard of lately."""
        self._observers = {
            replica: observer
            for replica, observer in self._observers.items()
            if now.monotonic_ms - observer.fetched.monotonic_ms < FORGOTTEN_AFTER_MS
        }
        return tuple(
            self._observers[replica].described(*replica)
            for replica in sorted(self._observers, key=lambda key: (key.id, key.directory_id.int))
        )
