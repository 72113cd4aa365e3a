"""One partition hosted by this node: its log, and the role that this node plays in it.

Invariant  Only the leader of the current epoch appends what producers send.
Invariant  A new leader records the start of its epoch before it answers anything in it.
Invariant  start offset <= last stable offset <= high watermark <= end offset.
Invariant  While a flush that `flush.messages` or `flush.ms` ask for is under way, the mark stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.records.validation import BatchRules, RejectedBatch, validate_produced
from tidelog.replication.high_watermark import HighWatermark
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_config import FOREVER, LogConfig
from tidelog.storage.log_values import Appended
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.retention import RemovedSegment


class Watcher(Protocol):
    """Somebody who waits for something to happen in a partition."""

    def partition_moved(self, new_bytes: int) -> None:
        """Records became readable, an offset moved, or the role changed."""
        ...


class Leadership(NamedTuple):
    """What the metadata says about a partition, as far as a replica acts on it."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]


class Partition:
    """One replica of one partition."""

    __slots__ = (
        "_flushes_early",
        "_watchers",
        "epoch_start_offset",
        "flushes_under_way",
        "high_watermark",
        "leadership",
        "log",
        "name",
        "node_id",
        "owed_flush",
        "rules",
    )

    def __init__(
        self, log: PartitionLog, node_id: int, high_watermark: int, rules: BatchRules
    ) -> None:
        self.log = log
        self.name = log.partition
        self.node_id = node_id
        self.rules = rules
        self.leadership = Leadership(NO_LEADER, -1, -1, (), ())
        self.epoch_start_offset: int | None = None
        self.owed_flush: FlushJob | None = None
        """Due since the last append; to be taken and run, then reported to `flushed`."""
        self.flushes_under_way = 0
        """Flushes that answers wait for."""
        self._flushes_early = _flushes_early(log.config)
        self.high_watermark = HighWatermark(high_watermark)
        self.high_watermark.clamp(log.start_offset, log.end_offset)
        self._watchers: dict[Watcher, None] = {}

    @property
    def is_leader(self) -> bool:
        return self.leadership.leader == self.node_id

    @property
    def leader_epoch(self) -> int:
        return self.leadership.leader_epoch

    def leads_in(self, epoch: int) -> bool:
        """Whether this node leads, and has led without a break since `epoch` began."""
        return self.is_leader and self.leadership.leader_epoch == epoch

    @property
    def last_stable_offset(self) -> int:
        """What a reader of committed transactions may see: below every open transaction."""
        mark = self.high_watermark.offset
        unstable = self.log.first_unstable_offset(mark)
        return mark if unstable is None else min(unstable, mark)

    @property
    def is_mark_behind_epoch(self) -> bool:
        """Whether a new leader still knows an older mark than its predecessor may have told."""
        start = self.epoch_start_offset
        return start is not None and self.high_watermark.offset < start

    def configure(self, config: LogConfig, rules: BatchRules) -> None:
        """Take on changed settings of the topic."""
        self.log.config = config
        self.rules = rules
        self._flushes_early = _flushes_early(config)

    def apply(self, leadership: Leadership) -> bool:
        """Take the role that newer metadata gives this replica; True when an epoch began."""
        if leadership.partition_epoch < self.leadership.partition_epoch:
            return False
        epoch_rose = leadership.leader_epoch > self.leadership.leader_epoch
        self.leadership = leadership
        if epoch_rose:
            self.epoch_start_offset = None
            if self.is_leader:
                self._begin_epoch(leadership.leader_epoch)
        if self.is_leader:
            self._raise_high_watermark()
        self._tell_watchers(0)
        return epoch_rose

    def _begin_epoch(self, epoch: int) -> None:
        self.epoch_start_offset = self.log.end_offset
        self.log.epochs.begin(epoch, self.log.end_offset)

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
        epoch, end = self.log.epochs.end_offset_for(last_fetched_epoch, self.log.end_offset)
        if epoch < last_fetched_epoch or end < fetch_offset:
            return epoch, end
        return None

    def append(
        self, records: memoryview | None, now: Now, produce_version: int
    ) -> Appended | RejectedBatch:
        """Validate and append what a producer sent, as leader of the current epoch."""
        accepted = validate_produced(records, self.rules, now.wall_ms, produce_version)
        if isinstance(accepted, RejectedBatch):
            return accepted
        appended = self.log.append_as_leader(accepted, self.leadership.leader_epoch, now)
        if isinstance(appended, Refusal):
            return RejectedBatch(appended, ())
        if not appended.duplicate:
            if self._flushes_early and self.log.owes_flush(now):
                self.owed_flush = self.log.flush_job()
                self.flushes_under_way += 1
            if self._raise_high_watermark():
                self._tell_watchers(accepted.header.size)
        return appended

    def flushed(self, job: FlushJob, error: str | None) -> None:
        """An owed flush has ended; after the last one under way the mark goes on."""
        self.flushes_under_way -= 1
        if error is not None:
            self.log.flush_failed(job, error)
            return
        self.log.flushed(job)
        if self.is_leader and self._raise_high_watermark():
            self._tell_watchers(0)

    def raise_start_to(self, offset: int) -> None:
        """Forget everything below `offset`, which must be committed."""
        self.log.raise_start_to(offset)
        self.high_watermark.clamp(self.log.start_offset, self.log.end_offset)
        self._tell_watchers(0)

    def delete_expired(self, now: Now) -> Sequence[RemovedSegment]:
        """Apply retention below the high watermark; the segments that went."""
        removed = self.log.delete_expired(now, self.high_watermark.offset)
        if removed:
            self._tell_watchers(0)
        return removed

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` whenever something moves here."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Stop telling; harmless for somebody who does not watch."""
        self._watchers.pop(watcher, None)

    def went_offline(self) -> None:
        """The directory of the log failed: let everyone who waits here find out."""
        self._tell_watchers(0)

    def abandon(self) -> None:
        """This node no longer hosts the partition: let everyone who waits here find out."""
        self.leadership = self.leadership._replace(leader=NO_LEADER)
        self._tell_watchers(0)
        self._watchers.clear()

    def _raise_high_watermark(self) -> bool:
        """Commit what every in-sync replica holds; whether the mark moved."""
        if self.flushes_under_way:
            return False
        end = self.log.end_offset
        followers = [member for member in self.leadership.in_sync if member != self.node_id]
        return not followers and self.high_watermark.raise_to(end, end)

    def _tell_watchers(self, new_bytes: int) -> None:
        for watcher in tuple(self._watchers):
            watcher.partition_moved(new_bytes)


def _flushes_early(config: LogConfig) -> bool:
    """Whether the topic wants records on disk sooner than the operating system would do it."""
    return config.flush_messages < FOREVER or config.flush_ms < FOREVER
