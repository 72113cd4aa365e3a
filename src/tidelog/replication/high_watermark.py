"""The high watermark: the offset below which a record can no longer be lost.

Invariant  Each offset below the mark is stored by every replica that could be elected next, so
           the set that counts holds proposed members, not just agreed ones.
Invariant  The mark rises only while enough replicas are in sync (KIP-966): what fewer of them
           hold could be lost with them.
Invariant  Within one leader epoch the mark only rises. A follower's mark follows its leader's,
           one answer behind, and may step back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model.errors import invariant
from tidelog.replication.follower_progress import FollowerProgress


class HighWatermark:
    """The mark of one replica."""

    __slots__ = ("offset",)

    def __init__(self, offset: int) -> None:
        self.offset = offset

    def raise_to(self, candidate: int, log_end: int) -> bool:
        """Move up to `candidate` if that is higher; say whether the mark moved."""
        if candidate <= self.offset:  # a returning follower lags; the mark waits for it
            return False
        invariant(candidate <= log_end, "the high watermark lies within the log")
        self.offset = candidate
        return True

    def follow(self, leader_mark: int, log_start: int, log_end: int) -> bool:
        """Take the leader's mark as far as the own log goes; say whether the mark moved."""
        before = self.offset
        self.offset = leader_mark
        self.clamp(log_start, log_end)
        return self.offset != before

    def clamp(self, log_start: int, log_end: int) -> None:
        """Keep the mark inside a log whose ends have moved."""
        self.offset = max(log_start, min(self.offset, log_end))


def has_enough(in_sync: int, min_in_sync: int, replicas: int) -> bool:
    """Whether so many in-sync replicas make a write safe; all of them always do."""
    return in_sync >= min(min_in_sync, replicas)


def slowest_end(
    leader_end: int,
    followers: Iterable[FollowerProgress],
    maximal: frozenset[int],
    might_join: Callable[[FollowerProgress], bool],
) -> int:
    """How far the leader and everyone who counts have come.

    Besides the in-sync replicas those count that are about to join them: a mark that ran ahead of
    such a follower for ever would keep it out for ever.
    """
    slowest = leader_end
    for follower in followers:
        if follower.end_offset < slowest and (
            follower.broker_id in maximal or might_join(follower)
        ):
            slowest = follower.end_offset
    return slowest
