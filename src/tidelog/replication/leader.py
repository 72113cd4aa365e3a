"""One partition while this node leads it. Built anew for each leader epoch.

Invariant  The start of the epoch is in the epoch cache before anything is answered in it.
Invariant  What waits here was written in this epoch and is answered when the epoch ends: what was
           written may yet be cut off, even if the same node leads again (D12).
Invariant  A follower joins the in-sync replicas only with everything this leader began its epoch
           with, everything committed, and in the incarnation that the metadata knows (D9).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import Final
from uuid import UUID

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.observe.replication_events import HighWatermarkMoved
from tidelog.records.batch import read_header
from tidelog.records.validation import (
    NO_BATCH,
    AcceptedBatch,
    RejectedBatch,
    misshapen,
    validate_produced,
)
from tidelog.replication.follower_progress import LONG_AGO, FollowerProgress
from tidelog.replication.high_watermark import (
    Answer,
    ParkedAnswer,
    ParkedAnswers,
    has_enough,
    slowest_end,
)
from tidelog.replication.in_sync_replicas import InSyncProposals
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.messages import (
    ANY_BROKER_EPOCH,
    UNKNOWN_OFFSET,
    AlterPartitionOutcome,
    FollowerFetch,
    LeaderAndIsr,
    ProposalFate,
    ProposeInSyncReplicas,
    ReadCandidate,
)
from tidelog.replication.replica_context import BrokerEligibility, ReplicaContext
from tidelog.replication.written_ends import TransactionEnd, WrittenEnds
from tidelog.storage.log_values import Appended
from tidelog.storage.producer import Origin
from tidelog.storage.transaction_verification import Verification

ACKS_ALL: Final = -1


class LeaderReplica:
    """Appends, follows the progress of the others, and moves the high watermark."""

    __slots__ = (
        "_context",
        "_replica",
        "_uncommitted",
        "deletions",
        "epoch",
        "epoch_start_offset",
        "followers",
        "in_sync",
        "is_over",
        "produces",
        "proposals",
        "written_ends",
    )

    def __init__(self, replica: LocalReplica, context: ReplicaContext, now: Now) -> None:
        self._replica = replica
        self._context = context
        leadership = replica.leadership
        self.epoch = leadership.leader_epoch
        self.epoch_start_offset = replica.log.end_offset
        replica.log.epochs.begin(self.epoch, self.epoch_start_offset)
        self.is_over = False
        """Whether another epoch began, or this node no longer hosts the partition."""
        self.produces = ParkedAnswers()
        """Produces that wait for the high watermark."""
        self.deletions = ParkedAnswers()
        """Deletions that wait for the log starts of all live replicas."""
        self.proposals = InSyncProposals(replica, context, partial(context.propose, self))
        self.in_sync = self.proposals.in_sync
        self.followers: dict[int, FollowerProgress] = {}
        self._assign(leadership.replicas, now)
        self._uncommitted: deque[tuple[int, int]] = deque()
        """End offset and size of each batch appended in this epoch above the high watermark."""
        self.written_ends = WrittenEnds(replica.log.producers)

    @property
    def name(self) -> TopicPartition:
        return self._replica.name

    @property
    def topic_id(self) -> UUID:
        return self._replica.log.topic_id

    # -- appending -----------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | None,
        now: Now,
        produce_version: int,
        acks: int = 1,
        verification: Verification | None = None,
    ) -> Appended | RejectedBatch:
        """Validate and append what a producer sent."""
        replica = self._replica
        if acks == ACKS_ALL and not self.has_enough_in_sync:
            shape = NO_BATCH if records is None else misshapen(records, produce_version)
            return RejectedBatch(shape or self._too_few())
        accepted = validate_produced(records, replica.rules, now.wall_ms, produce_version)
        if isinstance(accepted, RejectedBatch):
            return accepted
        appended = replica.log.append_as_leader(
            accepted, self.epoch, now, verification=verification
        )
        if isinstance(appended, Refusal):
            return RejectedBatch(appended)
        if not appended.duplicate:
            self._grown(appended, accepted.header.size, now)
        return appended

    def append_end(self, end: TransactionEnd, now: Now) -> Appended | Refusal:
        """End a transaction, unless this order, or one after it, was carried out already."""
        repeated = self.written_ends.repeated(end)
        if repeated is not None:
            return repeated
        batch = end.batch(now.wall_ms)
        appended = self.append_as_coordinator(batch, now, end.transaction_version)
        if isinstance(appended, Appended):
            self.written_ends.note(end, appended)
        return appended

    def append_as_coordinator(
        self, batch: bytearray, now: Now, transaction_version: int = 1
    ) -> Appended | Refusal:
        """Append a batch that this broker built: all its replicas must be able to hold it."""
        replica = self._replica
        if not self.has_enough_in_sync:
            return self._too_few()
        if len(batch) > replica.rules.max_message_bytes:
            why = f"a batch of {len(batch)} bytes, {replica.rules.max_message_bytes} may be"
            return Refusal(ErrorCode.message_too_large, why)
        accepted = AcceptedBatch(read_header(batch), memoryview(batch))
        appended = replica.log.append_as_leader(
            accepted,
            self.epoch,
            now,
            origin=Origin.COORDINATOR,
            transaction_version=transaction_version,
        )
        if isinstance(appended, Appended):
            self._grown(appended, accepted.header.size, now)
        return appended

    def _grown(self, appended: Appended, size: int, now: Now) -> None:
        replica, counters = self._replica, self._context.counters
        counters.batches_in += 1
        counters.records_in += appended.last_offset + 1 - appended.first_offset
        counters.bytes_in += size
        if self._context.watch.is_on:
            replica.grew(appended.first_offset, size, now)
        for follower in self.followers.values():
            follower.leader_grows(appended.first_offset, now.monotonic_ms)
        self._uncommitted.append((appended.last_offset + 1, size))
        replica.appended(now)
        replica.watchers.end_moved(size)
        self.commit(now)

    def _too_few(self) -> Refusal:
        replica = self._replica
        members, wanted = len(self.in_sync.committed), replica.min_in_sync
        why = f"{replica.name} has {members} in-sync replicas, and its topic asks for {wanted}"
        return Refusal(ErrorCode.not_enough_replicas, why)

    def acknowledgement(self, end_offset: int) -> ErrorCode | None:
        """What a producer with acks=all is told of records below `end_offset`; None: it waits."""
        return self._verdict() if self._replica.high_watermark.offset >= end_offset else None

    def _verdict(self) -> ErrorCode:
        """Of records that are below the high watermark."""
        if self._is_enough(len(self.in_sync.maximal)):
            return ErrorCode.none
        return ErrorCode.not_enough_replicas_after_append

    def wait_for(self, end_offset: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once everything below `end_offset`, just appended here, is committed."""
        return self.produces.wait_for(end_offset, answer)

    def fail(self, code: ErrorCode) -> None:
        """Nobody will know any more what became of anything: answer all who wait."""
        self.produces.fail(code)
        self.deletions.fail(code)

    def end(self) -> None:
        """The epoch is over here: nothing written in it is promised any more."""
        self.is_over = True
        self.in_sync.revert()
        self.fail(ErrorCode.not_leader_or_follower)

    # -- the high watermark --------------------------------------------------------------------

    @property
    def has_enough_in_sync(self) -> bool:
        """Whether the agreed members are as many as the topic asks for (KIP-966)."""
        return self._is_enough(len(self.in_sync.committed))

    def _is_enough(self, members: int) -> bool:
        replica = self._replica
        return has_enough(members, replica.min_in_sync, len(replica.leadership.replicas))

    def commit(self, now: Now) -> bool:
        """Raise the high watermark over what everyone who counts holds; whether it moved."""
        replica = self._replica
        if not self.has_enough_in_sync:
            return False
        end = replica.promised_end
        slowest = slowest_end(
            end,
            self.followers.values(),
            self.in_sync.maximal,
            partial(self._might_join, now.monotonic_ms),
        )
        before = replica.high_watermark.offset
        if not replica.high_watermark.raise_to(slowest, end):
            return False
        if self._context.watch.is_on:
            replica.committed(before, now)
        size, uncommitted = 0, self._uncommitted
        while uncommitted and uncommitted[0][0] <= slowest:
            size += uncommitted.popleft()[1]
        self.produces.settle_up_to(slowest, self._verdict())
        replica.watchers.high_watermark_moved(size)
        return True

    def tell_of_high_watermark(self, before: int, cause: str) -> None:
        """Announce that it moved, if it did."""
        after = self._replica.high_watermark.offset
        if after != before:
            self._context.announce(
                HighWatermarkMoved(
                    partition=self._replica.name,
                    leader_epoch=self.epoch,
                    before=before,
                    after=after,
                    cause=cause,
                )
            )

    @property
    def is_high_watermark_behind_epoch(self) -> bool:
        """Whether this leader still knows an older one than its predecessor may have told."""
        return self._replica.high_watermark.offset < self.epoch_start_offset

    def is_not_available_yet(self, offset: int) -> bool:
        """Whether a consumer may have read up to `offset` before this leader's time.

        It gets OFFSET_NOT_AVAILABLE until the high watermark has caught up, and just continues.
        """
        committed = self._replica.high_watermark.offset
        behind = self.is_high_watermark_behind_epoch
        return behind and committed < offset <= self._replica.log.end_offset

    def _might_join(self, now_ms: int, follower: FollowerProgress) -> bool:
        lag_max_ms = self._context.lag_max_ms
        if not follower.is_caught_up(self._replica.log.end_offset, now_ms, lag_max_ms):
            return False
        return _is_eligible(follower, self._context.eligibility.of(follower.broker_id))

    # -- the followers -------------------------------------------------------------------------

    def follower_fetched(self, fetch: FollowerFetch, now: Now) -> Refusal | None:
        """Note what a fetch proves about its sender; it must not have diverged."""
        follower = self.followers.get(fetch.replica_id)
        if follower is None:
            why = f"broker {fetch.replica_id} holds no replica"
            return Refusal(ErrorCode.not_leader_or_follower, why)
        standing = self._context.eligibility.of(fetch.replica_id)
        if is_outdated(fetch.broker_epoch, standing):
            why = f"broker epoch {fetch.broker_epoch} ended, now {standing.broker_epoch}"
            return Refusal(ErrorCode.not_leader_or_follower, why)
        end_before, start_before = follower.end_offset, follower.start_offset
        follower.fetched(fetch, now.monotonic_ms)
        if follower.broker_id not in self.in_sync.maximal:
            self._let_join(follower, standing)
        if follower.end_offset != end_before:
            if self._context.watch.is_on:
                self._context.watch.moved[self._replica.name] = None
            self.commit(now)
        if follower.start_offset != start_before:
            self._settle_deletions()
        return None

    def _let_join(self, follower: FollowerProgress, standing: BrokerEligibility) -> None:
        """Propose a follower that has caught up."""
        if (
            self.in_sync.pending is None
            and follower.end_offset >= self._replica.high_watermark.offset
            and self._reached_epoch_start(follower)
            and _is_eligible(follower, standing)
        ):
            cause = (
                f"{follower.broker_id} has caught up: it holds everything below "
                f"{follower.end_offset}, the high watermark is at "
                f"{self._replica.high_watermark.offset}"
            )
            members = self.in_sync.committed | {follower.broker_id}
            self.proposals.propose(members, self.followers, cause)

    def _reached_epoch_start(self, follower: FollowerProgress) -> bool:
        """Whether it holds all that could have been committed before this leader's time."""
        return follower.end_offset >= self.epoch_start_offset

    def is_out_of_sync(self, broker_id: int) -> bool:
        """Whether a follower is still to join: it must be looked at whenever it is heard."""
        return broker_id not in self.in_sync.committed

    def shrink_if_due(self, now: Now) -> None:
        """Propose to go on without the members that fell behind for too long.

        To be called every half `replica.lag.time.max.ms`.
        """
        if self.in_sync.pending is None:
            end, lag_max_ms = self._replica.log.end_offset, self._context.lag_max_ms
            late = [
                follower
                for follower in self.followers.values()
                if follower.broker_id in self.in_sync.committed
                and not follower.is_caught_up(end, now.monotonic_ms, lag_max_ms)
            ]
            if late:
                members = self.in_sync.committed - {follower.broker_id for follower in late}
                why = _lateness(late, end, now.monotonic_ms)
                self.proposals.propose(members, self.followers, why)
        self.look_again(now)

    def look_again(self, now: Now) -> None:
        """Time passed or brokers came and went: someone may no longer hold things up."""
        self.commit(now)
        self._settle_deletions()

    # -- the controller and the metadata -------------------------------------------------------

    def stands_by(self, proposal: ProposeInSyncReplicas) -> bool:
        """Whether this proposal still waits for an answer."""
        return self.in_sync.pending is proposal

    def proposal_answered(
        self, proposal: ProposeInSyncReplicas, outcome: AlterPartitionOutcome, now: Now
    ) -> ProposalFate:
        """The controller answered a proposal; what is left to do with it."""
        before = self._replica.high_watermark.offset
        fate = self.proposals.answered(proposal, outcome)
        if fate is ProposalFate.COMMITTED or fate is ProposalFate.REVERTED:
            self.commit(now)
            self.tell_of_high_watermark(before, "the in-sync replicas changed")
        return fate

    def metadata_changed(self, before: LeaderAndIsr, now: Now) -> None:
        """Newer metadata of this epoch: other members, another assignment."""
        leadership = self._replica.leadership
        self._assign(leadership.replicas, now)
        if leadership.partition_epoch > before.partition_epoch:
            self.proposals.commit(leadership.in_sync)

    def _assign(self, replicas: Iterable[int], now: Now) -> None:
        known = self.followers
        self.followers = {}
        for broker_id in replicas:
            if broker_id != self._replica.node_id:
                caught_up_ms = now.monotonic_ms if broker_id in self.in_sync.committed else LONG_AGO
                self.followers[broker_id] = known.get(broker_id) or FollowerProgress(
                    broker_id, caught_up_ms
                )

    # -- deleting and reading ------------------------------------------------------------------

    def wait_for_starts(self, offset: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once no live replica holds anything below `offset`."""
        return self.deletions.wait_for(offset, answer)

    def low_watermark(self) -> int:
        """The smallest log start among the live replicas; -1 while one of them is unknown."""
        eligibility = self._context.eligibility
        starts = [
            follower.start_offset
            for follower in self.followers.values()
            if eligibility.of(follower.broker_id).is_live
        ]
        return min([self._replica.log.start_offset, *starts])

    def _settle_deletions(self) -> None:
        if self.deletions:
            low = self.low_watermark()
            if low != UNKNOWN_OFFSET:
                self.deletions.settle_up_to(low, ErrorCode.none)

    def read_candidates(self, fetch_offset: int, now: Now) -> list[ReadCandidate]:
        """The in-sync replicas that hold `fetch_offset`, this one first (KIP-392)."""
        replica = self._replica
        found = [ReadCandidate(replica.node_id, replica.log.end_offset, now.monotonic_ms)]
        found += [
            ReadCandidate(follower.broker_id, follower.end_offset, follower.last_caught_up_ms)
            for follower in self.followers.values()
            if follower.broker_id in self.in_sync.committed
            and follower.start_offset <= fetch_offset <= follower.end_offset
        ]
        return found


def is_outdated(broker_epoch: int, standing: BrokerEligibility) -> bool:
    """Whether a fetch comes from an earlier incarnation of its sender than the metadata knows."""
    return broker_epoch != ANY_BROKER_EPOCH and standing.broker_epoch > broker_epoch


def is_same_incarnation(broker_epoch: int | None, standing: BrokerEligibility) -> bool:
    """Whether what fetched is the process that the metadata calls live (KIP-903)."""
    return broker_epoch in (ANY_BROKER_EPOCH, standing.broker_epoch)


def _is_eligible(follower: FollowerProgress, standing: BrokerEligibility) -> bool:
    return standing.is_live and is_same_incarnation(follower.broker_epoch, standing)


def _lateness(late: Iterable[FollowerProgress], leader_end: int, now_ms: int) -> str:
    return "; ".join(
        f"{follower.broker_id} was silent in this epoch"
        if follower.end_offset == UNKNOWN_OFFSET
        else f"{follower.broker_id} is at {follower.end_offset} of {leader_end} and was last "
        f"caught up {now_ms - follower.last_caught_up_ms} ms ago"
        for follower in late
    )
