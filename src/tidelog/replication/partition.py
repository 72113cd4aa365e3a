"""One partition hosted by this node: the role that the metadata gives it, and epoch fencing.

Invariant  Only the leader of the current epoch appends what producers send.
Invariant  A role is an object of one leader epoch; what waited in an earlier one is answered when
           the next begins, even if the same node leads again (D12).
Invariant  A partition epoch never steps back, whether the metadata or the controller's answer to
           a proposal told of it first (C13).
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH, NO_LEADER
from tidelog.model.time import Now
from tidelog.observe.events import PartitionBecameLeader
from tidelog.observe.replication_events import PartitionBecameFollower
from tidelog.records.validation import BatchRules
from tidelog.replication.divergence import divergence
from tidelog.replication.follower import FollowerReplica
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.local_replica import LocalReplica
from tidelog.replication.messages import LeaderAndIsr
from tidelog.replication.replica_context import ReplicaContext
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_config import LogConfig
from tidelog.storage.partition_log import PartitionLog


class Partition(LocalReplica):
    """One replica of one partition, in the role it has now.

    Who wants something of the leader asks for it: `leader` gives it, or says why not.
    """

    __slots__ = ("following", "leading")

    def __init__(
        self,
        log: PartitionLog,
        node_id: int,
        high_watermark: int,
        rules: BatchRules,
        min_in_sync: int,
        context: ReplicaContext,
    ) -> None:
        super().__init__(log, node_id, high_watermark, rules, min_in_sync, context)
        self.leading: LeaderReplica | None = None
        """While this node leads."""
        self.following: FollowerReplica | None = None
        """While it does not."""

    # -- roles ---------------------------------------------------------------------------------

    @property
    def is_leader(self) -> bool:
        return self.leading is not None

    def leader(self, current_leader_epoch: int = NO_EPOCH) -> LeaderReplica | Refusal:
        """The leader, if this is it and the request was made in its epoch; or why not."""
        refusal = self.fence(current_leader_epoch)
        if refusal is not None:
            return refusal
        if self.leading is not None:
            return self.leading
        why = f"{self.name} is led by {self.leadership.leader}"
        return Refusal(ErrorCode.not_leader_or_follower, why)

    def apply(self, leadership: LeaderAndIsr, now: Now) -> bool:
        """Take the role that newer metadata gives this replica; True when an epoch began."""
        before = self.leadership
        if leadership.partition_epoch < before.partition_epoch:
            return False
        high_watermark = self.high_watermark.offset
        self.leadership = leadership
        epoch_rose = leadership.leader_epoch > before.leader_epoch
        if epoch_rose:
            self._begin_epoch(leadership, now)
        elif self.leading is not None:
            self.leading.metadata_changed(before, now)
        if self.leading is not None:
            self.leading.look_again(now)
            cause = "the epoch began" if epoch_rose else "the metadata changed"
            self.leading.tell_of_high_watermark(high_watermark, cause)
        self._changed()
        self.watchers.everything_moved()
        return epoch_rose

    def _begin_epoch(self, leadership: LeaderAndIsr, now: Now) -> None:
        self._end_role()
        if leadership.leader == self.node_id:
            self.leading = LeaderReplica(self, self._context, now)
            self._context.announce(
                PartitionBecameLeader(
                    partition=self.name,
                    leader_epoch=leadership.leader_epoch,
                    start_offset=self.log.end_offset,
                    cause="the controller chose this replica",
                )
            )
        else:
            self.following = FollowerReplica(self, self._context)
            nobody = leadership.leader == NO_LEADER
            self._context.announce(
                PartitionBecameFollower(
                    partition=self.name,
                    leader=leadership.leader,
                    leader_epoch=leadership.leader_epoch,
                    end_offset=self.log.end_offset,
                    cause=f"the controller chose {'nobody' if nobody else leadership.leader}",
                )
            )
            self.following.prepare(now)

    def _end_role(self) -> None:
        ended, self.leading, self.following = self.leading, None, None
        if ended is not None:
            ended.end()

    def configure(self, config: LogConfig, rules: BatchRules, min_in_sync: int, now: Now) -> None:
        """Take on changed settings of the topic."""
        self.take_settings(config, rules, min_in_sync)
        if self.leading is not None:
            self.leading.look_again(now)

    def went_offline(self) -> None:
        """The directory of the log failed: let everyone who waits here find out."""
        if self.leading is not None:
            self.leading.fail(ErrorCode.kafka_storage_error)
        self._changed()
        self.watchers.everything_moved()

    def abandon(self) -> None:
        """This node no longer hosts the partition: let everyone who waits here find out."""
        self.leadership = self.leadership._replace(leader=NO_LEADER)
        self._end_role()
        self._changed()
        self.watchers.everything_moved()
        self.watchers.clear()

    def _changed(self) -> None:
        """For those who look."""
        if self._context.watch.is_on:
            self._context.watch.changed[self.name] = None

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

    # -- durability ----------------------------------------------------------------------------

    def flushed(self, job: FlushJob, error: str | None, now: Now) -> None:
        """An owed flush has ended; after the last one under way the high watermark goes on."""
        self.flushes_under_way -= 1
        if error is not None:
            self.log.flush_failed(job, error)
            if self.leading is not None:
                self.leading.produces.fail(ErrorCode.kafka_storage_error)
            return
        self.log.flushed(job)
        if self.leading is not None:
            self.leading.commit(now)
