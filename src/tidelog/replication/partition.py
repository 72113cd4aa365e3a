"""One partition hosted by this node: the role that the metadata gives it, and epoch fencing.

Invariant  Only the leader of the current epoch appends what producers send.
Invariant  A role is an object of one leader epoch; what waited in an earlier one is answered when
           the next begins, even if the same node leads again (D12).
Invariant  A partition epoch never steps back, whether the metadata or the controller's answer to
           a proposal told of it first (C13).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.observe.events import PartitionBecameLeader
from tidelog.observe.replication_events import HighWatermarkMoved, PartitionBecameFollower
from tidelog.records.validation import BatchRules, RejectedBatch
from tidelog.replication.divergence import divergence
from tidelog.replication.follower import FollowerReplica
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.messages import (
    AlterPartitionOutcome,
    Dropped,
    FollowerFetch,
    FollowerStep,
    LeaderAnswer,
    LeaderOffsets,
    Leadership,
    ProposalFate,
    ProposeInSyncReplicas,
)
from tidelog.replication.parked import Answer, ParkedAnswer
from tidelog.replication.surroundings import Surroundings
from tidelog.replication.written_ends import TransactionEnd
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_values import Appended
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.transaction_verification import Verification

__all__ = ["Leadership", "Partition"]


class Partition(LocalReplica):
    """One replica of one partition, in the role it has now."""

    __slots__ = ("_surroundings", "follower", "leader")

    def __init__(
        self,
        log: PartitionLog,
        node_id: int,
        high_watermark: int,
        rules: BatchRules,
        min_in_sync: int,
        surroundings: Surroundings,
    ) -> None:
        super().__init__(log, node_id, high_watermark, rules, min_in_sync)
        self._surroundings = surroundings
        self.leader: LeaderReplica | None = None
        self.follower: FollowerReplica | None = None

    def appended(self, now: Now) -> None:
        """Records were written, perhaps the first ones."""
        super().appended(now)
        if not self.log.flushes.identity_requested:
            self._surroundings.identify(self.log)

    # -- roles ---------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leader is not None

    def leads_in(self, epoch: int) -> bool:
        """Whether this node leads, and has led without a break since `epoch` began."""
        return self.leader is not None and self.leader.epoch == epoch

    @property
    def epoch_start_offset(self) -> int | None:
        """Where the epoch of this leader begins; None on a follower."""
        return None if self.leader is None else self.leader.epoch_start_offset

    def apply(self, leadership: Leadership, now: Now) -> bool:
        """Take the role that newer metadata gives this replica; True when an epoch began."""
        before = self.leadership
        if leadership.partition_epoch < before.partition_epoch:
            return False
        mark = self.high_watermark.offset
        self.leadership = leadership
        epoch_rose = leadership.leader_epoch > before.leader_epoch
        if epoch_rose:
            self._begin_epoch(leadership, now)
        elif self.leader is not None:
            self.leader.metadata_changed(before, now)
        if self.leader is not None:
            self.leader.look_again(now)
            self._tell_of_mark(mark, "the epoch began" if epoch_rose else "the metadata changed")
        self.watchers.everything_moved()
        return epoch_rose

    def _begin_epoch(self, leadership: Leadership, now: Now) -> None:
        self.leader = self.follower = None
        self.produces.end_epochs_before(leadership.leader_epoch)
        self.deletions.end_epochs_before(leadership.leader_epoch)
        if leadership.leader == self.node_id:
            self.leader = LeaderReplica(self, self._surroundings, self._propose, now)
            self._surroundings.announce(
                PartitionBecameLeader(
                    partition=self.name,
                    leader_epoch=leadership.leader_epoch,
                    start_offset=self.log.end_offset,
                    cause="the controller chose this replica",
                )
            )
        else:
            self.follower = FollowerReplica(self, self._surroundings)
            nobody = leadership.leader == NO_LEADER
            self._surroundings.announce(
                PartitionBecameFollower(
                    partition=self.name,
                    leader=leadership.leader,
                    leader_epoch=leadership.leader_epoch,
                    end_offset=self.log.end_offset,
                    cause=f"the controller chose {'nobody' if nobody else leadership.leader}",
                )
            )
            self.follower.prepare(now)

    def _propose(self, proposal: ProposeInSyncReplicas) -> None:
        self._surroundings.propose(self, proposal)

    def _tell_of_mark(self, before: int, cause: str) -> None:
        after = self.high_watermark.offset
        if after != before:
            self._surroundings.announce(
                HighWatermarkMoved(
                    partition=self.name,
                    leader_epoch=self.leader_epoch,
                    before=before,
                    after=after,
                    cause=cause,
                )
            )

    def configure(self, config: LogConfig, rules: BatchRules, min_in_sync: int, now: Now) -> None:
        """Take on changed settings of the topic."""
        self.take_settings(config, rules, min_in_sync)
        self.look_again(now)

    def look_again(self, now: Now) -> None:
        """Brokers came or went: whoever held things up may no longer count."""
        if self.leader is not None:
            self.leader.look_again(now)

    def went_offline(self) -> None:
        """The directory of the log failed: let everyone who waits here find out."""
        self.produces.fail(ErrorCode.kafka_storage_error)
        self.deletions.fail(ErrorCode.kafka_storage_error)
        self.watchers.everything_moved()

    def abandon(self) -> None:
        """This node no longer hosts the partition: let everyone who waits here find out."""
        self.leadership = self.leadership._replace(leader=NO_LEADER)
        self.leader = self.follower = None
        self.produces.fail(ErrorCode.not_leader_or_follower)
        self.deletions.fail(ErrorCode.not_leader_or_follower)
        self.watchers.everything_moved()
        self.watchers.clear()

    # -- fencing and divergence ----------------------------------------------------------------

    def fence(self, current_leader_epoch: int) -> Refusal | None:
        """Refuse a request made under another leader epoch than ours; -1 makes no claim."""
        epoch = self.leadership.leader_epoch
        if current_leader_epoch < 0 or current_leader_epoch == epoch:
            return None
        if current_leader_epoch < epoch:
            return Refusal(
                ErrorCode.fenced_leader_epoch, f"epoch {current_leader_epoch} ended, now {epoch}"
            )
        return Refusal(
            ErrorCode.unknown_leader_epoch, f"epoch {current_leader_epoch} is not known yet"
        )

    def divergence(self, last_fetched_epoch: int, fetch_offset: int) -> tuple[int, int] | None:
        """Where a reader's log and ours part: the epoch and its end here; None when they agree.

        An epoch we know nothing of answers (-1, -1).
        """
        return divergence(self.log.epochs, self.log.end_offset, last_fetched_epoch, fetch_offset)

    @property
    def is_mark_behind_epoch(self) -> bool:
        """Whether a new leader still knows an older mark than its predecessor may have told."""
        leader = self.leader
        return leader is not None and self.high_watermark.offset < leader.epoch_start_offset

    def is_not_available_yet(self, offset: int) -> bool:
        """Whether a consumer may have read up to `offset` before this leader's time.

        It gets OFFSET_NOT_AVAILABLE until the mark has caught up, and just continues.
        """
        mark = self.high_watermark.offset
        return self.is_mark_behind_epoch and mark < offset <= self.log.end_offset

    # -- as leader -----------------------------------------------------------------------------

    def append(
        self,
        records: memoryview | None,
        now: Now,
        produce_version: int,
        acks: int = 1,
        verification: Verification | None = None,
    ) -> Appended | RejectedBatch:
        """Validate and append what a producer sent, as leader of the current epoch."""
        if self.leader is None:
            return RejectedBatch(self._not_leader())
        return self.leader.append(records, now, produce_version, acks, verification)

    def append_as_coordinator(self, batch: bytearray, now: Now) -> Appended | Refusal:
        """Append a batch that a coordinator on this broker built, to be held by all in sync."""
        if self.leader is None:
            return self._not_leader()
        return self.leader.append_as_coordinator(batch, now)

    def append_end(self, end: TransactionEnd, now: Now) -> Appended | Refusal:
        """End a transaction here; a duplicate when this leader has done so already."""
        if self.leader is None:
            return self._not_leader()
        return self.leader.append_end(end, now)

    def _not_leader(self) -> Refusal:
        why = f"{self.name} is led by {self.leadership.leader}"
        return Refusal(ErrorCode.not_leader_or_follower, why)

    def acknowledgement(self, end_offset: int) -> ErrorCode | None:
        """What to tell a producer with acks=all now; None when it must `wait_for` the mark."""
        if self.leader is None:
            return ErrorCode.not_leader_or_follower
        return self.leader.acknowledgement(end_offset)

    def wait_for(self, end_offset: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once everything below `end_offset`, just appended here, is committed."""
        return self.produces.wait_for(end_offset, self.leader_epoch, answer)

    def wait_for_starts(self, offset: int, answer: Answer) -> ParkedAnswer:
        """Call `answer` once no live replica holds anything below `offset`."""
        return self.deletions.wait_for(offset, self.leader_epoch, answer)

    def follower_fetched(self, fetch: FollowerFetch, now: Now) -> Refusal | None:
        """A follower fetched, in our epoch and without divergence: note what that proves."""
        if self.leader is None:
            return self._not_leader()
        return self.leader.follower_fetched(fetch, now)

    @property
    def low_watermark(self) -> int:
        """The smallest log start among the live replicas; -1 while one of them is unknown."""
        return self.log.start_offset if self.leader is None else self.leader.low_watermark()

    def is_out_of_sync(self, broker_id: int) -> bool:
        """Whether a follower is still to join: it must be looked at whenever it is heard."""
        return self.leader is not None and broker_id not in self.leader.in_sync.committed

    def shrink_if_due(self, now: Now) -> None:
        """Let go of members that fell behind; to be called every half `replica.lag.time.max.ms`."""
        if self.leader is not None:
            self.leader.shrink_if_due(now)

    @property
    def proposal(self) -> ProposeInSyncReplicas | None:
        """The proposal under way."""
        return None if self.leader is None else self.leader.in_sync.pending

    def proposal_answered(
        self, proposal: ProposeInSyncReplicas, outcome: AlterPartitionOutcome, now: Now
    ) -> ProposalFate:
        """The controller answered a proposal; what is left to do with it."""
        if self.leader is None:
            return ProposalFate.OVERTAKEN
        mark = self.high_watermark.offset
        fate = self.leader.membership.answered(proposal, outcome)
        if fate is ProposalFate.COMMITTED or fate is ProposalFate.REVERTED:
            self.leader.commit(now)
            self._tell_of_mark(mark, "the in-sync replicas changed")
        return fate

    def flushed(self, job: FlushJob, error: str | None, now: Now) -> None:
        """An owed flush has ended; after the last one under way the mark goes on."""
        self.flushes_under_way -= 1
        if error is not None:
            self.log.flush_failed(job, error)
            self.produces.fail(ErrorCode.kafka_storage_error)
            return
        self.log.flushed(job)
        if self.leader is not None:
            self.leader.commit(now)

    # -- as follower ---------------------------------------------------------------------------

    def fetched(self, answer: LeaderAnswer, now: Now) -> FollowerStep:
        """The leader answered a fetch."""
        return Dropped() if self.follower is None else self.follower.fetched(answer, now)

    def offsets_told(self, offsets: LeaderOffsets, now: Now) -> FollowerStep:
        """The leader told where its log starts and ends, after `NeedsOffsets`."""
        return Dropped() if self.follower is None else self.follower.offsets_told(offsets, now)
