"""Followers that are expected to fetch a partition which this node has just begun to lead.

Each fetcher of a follower asks a leader for all its partitions at once and its question may be
parked here for half a second. When leadership of another partition comes to us, a question must be
asked anew before anything in that partition can be committed. So what is parked is answered at
once, and as long as the follower has not heard of its new duty, its questions are not parked for
long.

Invariant  Haste ends when the follower has asked for the partition, or after a second.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.fetching.fetch_sessions import ParkedFetch

HASTE_MS: Final = 1_000
SHORT_WAIT_MS: Final = 10


class AwaitedFollowers:
    """By follower: the partitions it is to ask for, and its questions that are parked."""

    def __init__(self, node_id: int, deadlines: Deadlines) -> None:
        self._node_id = node_id
        self._deadlines = deadlines
        self._awaited: dict[int, dict[TopicPartition, int]] = {}
        """With the leader epoch from which on it is awaited."""
        self._parked: dict[int, list[ParkedFetch]] = {}

    def __bool__(self) -> bool:
        return bool(self._awaited)

    def leads(self, name: TopicPartition, epoch: int, replicas: Iterable[int], now: Now) -> None:
        """An epoch began here; of these brokers, the others should follow."""
        awaited = [each for each in replicas if each != self._node_id]
        for follower in awaited:
            self._awaited.setdefault(follower, {})[name] = epoch
            for parked in self._parked.pop(follower, ()):
                parked.hurry(now)

        def give_up(_: Now) -> None:
            for follower in awaited:
                if self._awaited.get(follower, {}).get(name) == epoch:
                    self.heard(follower, name)

        self._deadlines.at(now.monotonic_ms + HASTE_MS, give_up)

    def heard(self, follower: int, name: TopicPartition) -> None:
        """A follower asked for a partition."""
        awaited = self._awaited.get(follower)
        if awaited is not None:
            awaited.pop(name, None)
            if not awaited:
                del self._awaited[follower]

    def patience_ms(self, follower: int, asked_ms: int) -> int:
        """How long a follower's fetch may wait."""
        return min(asked_ms, SHORT_WAIT_MS) if follower in self._awaited else asked_ms

    def parks(self, follower: int, parked: ParkedFetch) -> None:
        """A follower's fetch waits for news."""
        waiting = [each for each in self._parked.get(follower, ()) if each.is_waiting]
        self._parked[follower] = [*waiting, parked]
