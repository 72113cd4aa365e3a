"""What this node holds of a partition, whatever its role: the log, the high watermark, watchers.

Invariant  start offset <= last stable offset <= high watermark <= end offset.
Invariant  While a flush that `flush.messages` or `flush.ms` ask for is under way, a leader commits
           only what is on disk, and a follower does not tell its leader what it holds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.model.ids import NO_LEADER
from tidelog.model.time import Now
from tidelog.records.validation import BatchRules
from tidelog.replication.high_watermark import HighWatermark
from tidelog.replication.messages import LeaderAndIsr
from tidelog.replication.replica_context import ReplicaContext
from tidelog.replication.watchers import Watchers
from tidelog.storage.flush import FlushJob
from tidelog.storage.log_config import FOREVER, LogConfig
from tidelog.storage.log_values import RemovedSegment
from tidelog.storage.partition_log import PartitionLog


class LocalReplica:
    """One replica of one partition, without a role: what leader and follower work on."""

    __slots__ = (
        "_context",
        "_flushes_early",
        "flushes_under_way",
        "high_watermark",
        "leadership",
        "log",
        "min_in_sync",
        "name",
        "node_id",
        "owed_flush",
        "rules",
        "watchers",
    )

    def __init__(
        self,
        log: PartitionLog,
        node_id: int,
        high_watermark: int,
        rules: BatchRules,
        min_in_sync: int,
        context: ReplicaContext,
    ) -> None:
        self.log = log
        self.name = log.partition
        self.node_id = node_id
        self.rules = rules
        self.min_in_sync = min_in_sync
        """`min.insync.replicas` of the topic."""
        self.leadership = LeaderAndIsr(NO_LEADER, -1, -1, (), ())
        self.high_watermark = HighWatermark(high_watermark)
        self.high_watermark.clamp(log.start_offset, log.end_offset)
        self.watchers = Watchers()
        self.owed_flush: FlushJob | None = None
        """Due since the last append; to be taken and run, then reported to `flushed`."""
        self.flushes_under_way = 0
        """Flushes that answers, or the next fetch of a follower, wait for."""
        self._context = context
        self._flushes_early = _flushes_early(log.config)

    @property
    def leader_epoch(self) -> int:
        return self.leadership.leader_epoch

    @property
    def last_stable_offset(self) -> int:
        """What a reader of committed transactions may see: below every open transaction."""
        high_watermark = self.high_watermark.offset
        unstable = self.log.first_unstable_offset(high_watermark)
        return high_watermark if unstable is None else min(unstable, high_watermark)

    @property
    def promised_end(self) -> int:
        """How far this replica holds the log: while an owed flush is under way, only on disk."""
        return self.log.recovery_point if self.flushes_under_way else self.log.end_offset

    def take_settings(self, config: LogConfig, rules: BatchRules, min_in_sync: int) -> None:
        """Take on changed settings of the topic."""
        self.log.config = config
        self.rules = rules
        self.min_in_sync = min_in_sync
        self._flushes_early = _flushes_early(config)

    def appended(self, now: Now) -> None:
        """Records were written: see whether the topic wants them on disk before anything else."""
        if self._flushes_early and self.log.owes_flush(now):
            self.owed_flush = self.log.flush_job()
            self.flushes_under_way += self.owed_flush is not None
        if not self.log.flushes.identity_requested:  # these are the first ones
            self._context.identify(self.log)

    def truncated(self) -> None:
        """The log was cut: the high watermark comes along."""
        self.high_watermark.clamp(self.log.start_offset, self.log.end_offset)
        self._moved()

    def raise_start_to(self, offset: int) -> None:
        """Forget everything below `offset`, which must be committed."""
        self.log.raise_start_to(offset)
        self.high_watermark.clamp(self.log.start_offset, self.log.end_offset)
        self._moved()
        self.watchers.everything_moved()

    def delete_expired(self, now: Now) -> Sequence[RemovedSegment]:
        """Apply retention below the high watermark; the segments that went."""
        removed = self.log.delete_expired(now, self.high_watermark.offset)
        if removed:
            self._moved()
            self.watchers.everything_moved()
        return removed

    # -- for those who look; to be called while there are any -----------------------------------

    def grew(self, first_offset: int, size: int, now: Now) -> None:
        """Records were appended."""
        watch, log = self._context.watch, self.log
        watch.moved[self.name] = None
        if watch.magnified:
            watch.see(
                self.name,
                now,
                "appended",
                first_offset=first_offset,
                log_end_offset=log.end_offset,
                bytes=size,
                leader_epoch=self.leadership.leader_epoch,
            )

    def committed(self, before: int, now: Now) -> None:
        """The high watermark moved."""
        watch, after = self._context.watch, self.high_watermark.offset
        watch.moved[self.name] = None
        if watch.magnified:
            watch.see(self.name, now, "high_watermark", before=before, after=after)

    def _moved(self) -> None:
        if self._context.watch.is_on:
            self._context.watch.moved[self.name] = None


def _flushes_early(config: LogConfig) -> bool:
    """Whether the topic wants records on disk sooner than the operating system would do it."""
    return config.flush_messages < FOREVER or config.flush_ms < FOREVER
