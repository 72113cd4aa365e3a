"""How far a follower of the log has got, as its fetches tell the leader."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from tidelog.model.time import Now
from tidelog.quorum.description import ReplicaProgress


class FetchProgress(NamedTuple):
    """What the latest fetch said."""

    end_offset: int
    fetched: Now
    leader_end: int
    """Where the leader's log ended at that fetch: what the follower will have caught up with."""
    caught_up_ms: int = -1
    """When it last had everything, on the wall clock."""

    def described(self, replica_id: int, directory_id: UUID) -> ReplicaProgress:
        """The same for DescribeQuorum."""
        return ReplicaProgress(
            replica_id=replica_id,
            directory_id=directory_id,
            log_end_offset=self.end_offset,
            last_fetch_ms=self.fetched.wall_ms,
            last_caught_up_ms=self.caught_up_ms,
        )


def after_fetch(
    before: FetchProgress | None, offset: int, leader_end: int, now: Now
) -> FetchProgress:
    """A follower asks from an offset on, so it has everything below it."""
    caught_up_ms = -1 if before is None else before.caught_up_ms
    if offset >= leader_end:
        caught_up_ms = now.wall_ms
    elif before is not None and offset >= before.leader_end:
        caught_up_ms = before.fetched.wall_ms
    return FetchProgress(offset, now, leader_end, caught_up_ms)
