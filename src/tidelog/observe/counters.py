"""What a node has done since it started, as plain numbers that only rise.

Invariant  A number is raised where the fact happens, once, and costs an addition.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from typing import Final, NamedTuple

from tidelog.model.ids import TopicPartition

BUCKETS_MS: Final = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000)
UNCLEAN_ELECTIONS_KEPT: Final = 20


class ReplicationCounters:
    """Of all replicas of a node."""

    __slots__ = (
        "batches_in",
        "bytes_in",
        "bytes_out",
        "denials",
        "isr_expands",
        "isr_shrinks",
        "isr_updates_failed",
        "records_in",
        "rejected_batches",
        "replication_bytes_in",
        "replication_bytes_out",
        "truncated_records",
        "truncations",
    )

    def __init__(self) -> None:
        self.batches_in = 0
        """Appended by leaders, and so are records and bytes."""
        self.records_in = 0
        self.bytes_in = 0
        self.rejected_batches = 0
        self.bytes_out = 0
        """Records read by consumers."""
        self.replication_bytes_in = 0
        """Records fetched as follower."""
        self.replication_bytes_out = 0
        """Records read by followers."""
        self.isr_shrinks = 0
        self.isr_expands = 0
        self.isr_updates_failed = 0
        self.denials = 0
        """Permissions that requests lacked."""
        self.truncations = 0
        self.truncated_records = 0


class UncleanElection(NamedTuple):
    """One that may have lost what was committed."""

    partition: TopicPartition
    leader_epoch: int
    may_lose: str
    wall_ms: int


class ElectionCounters:
    """Of the controller of a node."""

    __slots__ = ("elections", "unclean", "unclean_elections")

    def __init__(self) -> None:
        self.elections = 0
        self.unclean_elections = 0
        self.unclean: deque[UncleanElection] = deque(maxlen=UNCLEAN_ELECTIONS_KEPT)
        """The latest ones."""


class RequestTimes:
    """How long requests of one API took from their arrival to their answer."""

    __slots__ = ("at_once", "buckets", "waited_ms")

    def __init__(self) -> None:
        self.at_once = 0
        """Answered in the step in which they arrived."""
        self.buckets = [0] * (len(BUCKETS_MS) + 1)
        """Of the others: how many took at most so long; the last one is for all above."""
        self.waited_ms = 0

    def waited(self, time_ms: int) -> None:
        """One was answered after a while."""
        self.buckets[bisect_left(BUCKETS_MS, time_ms)] += 1
        self.waited_ms += time_ms

    @property
    def count(self) -> int:
        return self.at_once + sum(self.buckets)
