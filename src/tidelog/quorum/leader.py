"""The leader of one epoch: what the voters hold decides what is committed.

Invariant  The high watermark never falls, and it moves only past a record of the leader's own
           epoch: what an earlier leader wrote is committed with it, never by counting copies (C4).
Invariant  An offset counts for a voter only once that voter has made it durable (C5).
Invariant  A leader that a majority has not fetched from for a while leads nobody and must resign;
           the only voter never does (C8).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.model.errors import invariant
from tidelog.model.time import Now
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.election_state import ElectionState
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.timeouts import QuorumTimeouts

OBSERVER_FORGOTTEN_AFTER_MS: Final = 300_000


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """How far a voter or observer has got; times are wall-clock, -1 when unknown."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumNode:
    """Where a voter listens."""

    node_id: int
    endpoints: tuple[VoterEndpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum as its leader sees it, for DescribeQuorum."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]
    nodes: tuple[QuorumNode, ...]


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


class Leader:
    """Built anew for each epoch this node leads."""

    __slots__ = (
        "_elected_ms",
        "_members",
        "_progress",
        "_remind_ms",
        "_removed_at",
        "_timeouts",
        "epoch",
        "epoch_start_offset",
        "high_watermark",
        "leader_id",
        "own_end",
    )
    name = "leader"
    pending = None
    voted = ReplicaKey(ElectionState().voted_id)

    def __init__(
        self,
        *,
        epoch: int,
        leader_id: int,
        epoch_start_offset: int,
        voter_ids: Iterable[int],
        high_watermark: int,
        timeouts: QuorumTimeouts,
        now: Now,
    ) -> None:
        self.epoch = epoch
        self.leader_id = leader_id
        self.epoch_start_offset = epoch_start_offset
        self.high_watermark = high_watermark
        self.own_end = 0
        """How far this node has made its own log durable."""
        self._timeouts = timeouts
        self._elected_ms = now.monotonic_ms
        self._remind_ms = now.monotonic_ms
        self._progress: dict[int, FetchProgress] = {}
        self._members = frozenset(voter_ids)
        self._removed_at: int | None = None
        """Behind which offset this node votes no longer."""

    @property
    def election_state(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id)

    def grants_pre_vote(self) -> bool:
        return False

    def grants_vote(self, candidate: ReplicaKey) -> bool:
        return False

    # What is committed

    @property
    def has_committed(self) -> bool:
        """Whether a record of this epoch is committed; before that the controller must not act."""
        return self.high_watermark > self.epoch_start_offset

    def made_durable(self, end_offset: int) -> bool:
        """This node holds everything below for good; whether that moved the high watermark."""
        self.own_end = end_offset
        return self._high_watermark_moved()

    def fetched(self, voter_id: int, offset: int, leader_end: int, now: Now) -> bool:
        """A voter holds everything below `offset`; whether that moved the high watermark."""
        invariant(voter_id in self._members, "only the fetches of voters count")
        before = self._progress.get(voter_id)
        self._progress[voter_id] = after_fetch(before, offset, leader_end, now)
        return self._high_watermark_moved()

    def heard_of(self, voter_id: int, now: Now) -> None:
        """A voter is there, though it does not fetch from the log just now."""
        before = self._progress.get(voter_id, FetchProgress(0, now, self.own_end))
        self._progress[voter_id] = before._replace(fetched=now)

    def voters_are(self, voter_ids: Iterable[int], log_end: int, now: Now) -> bool:
        """Another set of voters stands in the log, which ends behind it: it decides from now on,
        in this matter too. A new voter has as long as any other to show that it follows."""
        joined = frozenset(voter_ids) - self._members
        self._members = frozenset(voter_ids)
        self._removed_at = None if self.leader_id in self._members else log_end
        self._progress = {
            voter_id: progress
            for voter_id, progress in self._progress.items()
            if voter_id in self._members
        }
        for voter_id in joined:
            self.heard_of(voter_id, now)
        return self._high_watermark_moved()

    def end_offset_of(self, voter_id: int) -> int:
        """How far a voter holds the log, as far as the leader knows."""
        if voter_id == self.leader_id:
            return self.own_end
        progress = self._progress.get(voter_id)
        return 0 if progress is None else progress.end_offset

    def describe(self, voter: Voter, own_end: int, now: Now) -> ReplicaProgress:
        """How far a voter is; the leader itself, at `own_end`, always has everything."""
        if voter.voter_id == self.leader_id:
            return FetchProgress(own_end, now, own_end, now.wall_ms).described(*voter.key)
        progress = self._progress.get(voter.voter_id)
        if progress is None:
            return ReplicaProgress(
                replica_id=voter.voter_id, directory_id=voter.voter_directory_id, log_end_offset=-1
            )
        return progress.described(*voter.key)

    def _high_watermark_moved(self) -> bool:
        held = sorted(map(self.end_offset_of, self._members), reverse=True)
        held_by_majority = held[len(held) // 2] if held else 0
        if held_by_majority <= max(self.high_watermark, self.epoch_start_offset):
            return False
        self.high_watermark = held_by_majority
        return True

    # Whether anybody follows

    @property
    def due_ms(self) -> int:
        """When to look at the voters again."""
        if self.is_removed:
            return self._elected_ms
        lost_ms = self._majority_lost_ms
        return self._remind_ms if lost_ms is None else min(self._remind_ms, lost_ms)

    @property
    def is_removed(self) -> bool:
        """Whether it is committed that this node votes no longer; then it must not lead."""
        return self._removed_at is not None and self.high_watermark >= self._removed_at

    def has_lost_the_majority(self, now_ms: int) -> bool:
        """Whether too few voters have fetched lately."""
        lost_ms = self._majority_lost_ms
        return lost_ms is not None and lost_ms <= now_ms

    @property
    def _majority_lost_ms(self) -> int | None:
        heard_ms = self._majority_heard_ms
        return None if heard_ms is None else heard_ms + self._timeouts.check_quorum_ms

    def majority_heard_ms(self, now_ms: int) -> int:
        """When enough others to be a majority with had fetched lately."""
        heard_ms = self._majority_heard_ms
        return now_ms if heard_ms is None else heard_ms

    @property
    def _majority_heard_ms(self) -> int | None:
        heard_ms = sorted(map(self.heard_ms, self._others), reverse=True)
        needed = len(self._members) // 2 + 1 - (self.leader_id in self._members)
        if needed <= 0 or len(self._members) <= 1:
            return None
        return heard_ms[needed - 1]

    def silent_voters(self, now_ms: int) -> list[int]:
        """Whom to tell, once in a while, who leads: those that should fetch and do not."""
        if now_ms < self._remind_ms:
            return []
        period_ms = max(1, self._timeouts.fetch_ms // 2)
        self._remind_ms = now_ms + period_ms
        return [
            voter_id
            for voter_id in self._others
            if voter_id not in self._progress or now_ms - self.heard_ms(voter_id) >= period_ms
        ]

    @property
    def _others(self) -> list[int]:
        return sorted(self._members - {self.leader_id})

    def heard_ms(self, voter_id: int) -> int:
        """When another voter was last heard of; when this one was elected, if not since."""
        progress = self._progress.get(voter_id)
        return self._elected_ms if progress is None else progress.fetched.monotonic_ms

    def successors(self) -> list[int]:
        """The other voters, those with the most of the log first."""
        return sorted(self._others, key=lambda voter_id: (-self.end_offset_of(voter_id), voter_id))


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
            if now.monotonic_ms - observer.fetched.monotonic_ms < OBSERVER_FORGOTTEN_AFTER_MS
        }
        return tuple(
            self._observers[replica].described(*replica)
            for replica in sorted(self._observers, key=lambda key: (key.id, key.directory_id.int))
        )
