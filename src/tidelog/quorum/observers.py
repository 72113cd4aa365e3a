"""Nodes that follow the metadata log without a vote, as far as the leader has heard of them."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.time import Now
from tidelog.quorum.description import ReplicaProgress
from tidelog.quorum.serving import MetadataFetch

FORGOTTEN_AFTER_MS: Final = 300_000


class _Observer(NamedTuple):
    end_offset: int
    fetched: Now
    leader_end: int
    """Where the leader's log ended at that fetch: what the observer will have caught up with."""
    caught_up_ms: int


class Observers:
    """The progress of each observer, by node and directory; forgotten when it falls silent."""

    def __init__(self) -> None:
        self._observers: dict[tuple[int, UUID], _Observer] = {}

    def fetched(self, asked: MetadataFetch, leader_end: int, now: Now) -> None:
        """An observer asks from an offset on, so it has everything below it."""
        if asked.replica_id < 0:
            return
        key = (asked.replica_id, asked.directory_id)
        before = self._observers.get(key)
        caught_up_ms = -1 if before is None else before.caught_up_ms
        if asked.offset >= leader_end:
            caught_up_ms = now.wall_ms
        elif before is not None and asked.offset >= before.leader_end:
            caught_up_ms = before.fetched.wall_ms
        self._observers[key] = _Observer(asked.offset, now, leader_end, caught_up_ms)

    def progress(self, now: Now) -> tuple[ReplicaProgress, ...]:
        """The observers that were heard of lately."""
        self._observers = {
            key: observer
            for key, observer in self._observers.items()
            if now.monotonic_ms - observer.fetched.monotonic_ms < FORGOTTEN_AFTER_MS
        }
        return tuple(
            ReplicaProgress(
                replica_id=replica_id,
                directory_id=directory_id,
                log_end_offset=observer.end_offset,
                last_fetch_ms=observer.fetched.wall_ms,
                last_caught_up_ms=observer.caught_up_ms,
            )
            for (replica_id, directory_id), observer in sorted(
                self._observers.items(), key=lambda item: (item[0][0], item[0][1].int)
            )
        )
