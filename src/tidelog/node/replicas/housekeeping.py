"""What a broker does on its own, by the clock: checkpoints, retention, cleaning, flushes.

Invariant  Nothing here is needed for an answer to be right; it bounds disk use and restart time.
Invariant  Checkpoints are written and synced by jobs; the last ones are written when logs close.
Invariant  A task that fails takes its directory offline, where that is noted, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.model.time import Now
from tidelog.node.core.checkpointing import write_down
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.metadata_feed import MetadataFeed
from tidelog.node.replicas.cleaner import Cleaner
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.replica_fetchers import ReplicaFetchers
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.events import SegmentDeleted
from tidelog.replication.partition import Partition
from tidelog.storage.checkpoint import Offsets
from tidelog.storage.log_directory import LogDirectory

SWEEP_INTERVAL_MS: Final = 1000


class Housekeeping:
    """Sets its own deadlines; starts once the logs are loaded, lest it writes down too little."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        directories: Sequence[LogDirectory],
        replicas: Replicas,
        flushes: Flushes,
        fetchers: ReplicaFetchers,
        metadata: MetadataFeed,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._directories = directories
        self._replicas = replicas
        self._flushes = flushes
        self._fetchers = fetchers
        self._metadata = metadata
        self._cleaner = Cleaner(runtime, cluster, directories, replicas)

    def start(self, now: Now) -> None:
        """Begin; every task has the interval that Kafka's settings give it."""
        config = self._cluster.config
        delay_ms = config.log_initial_task_delay_ms
        tasks = (
            (config.log_retention_check_interval_ms, self._delete_expired),
            (
                config.replica_high_watermark_checkpoint_interval_ms,
                self._checkpoint_high_watermarks,
            ),
            (config.log_flush_offset_checkpoint_interval_ms, self._checkpoint_everything),
            (config.producer_id_expiration_check_interval_ms, self._expire_producers),
            (max(1, config.replica_lag_time_max_ms // 2), self._shrink_in_sync),
        )
        deadlines = self._runtime.deadlines
        for interval_ms, task in tasks:
            deadlines.every(now.monotonic_ms + min(delay_ms, interval_ms), interval_ms, task)
        deadlines.every(now.monotonic_ms + SWEEP_INTERVAL_MS, SWEEP_INTERVAL_MS, self._every_second)
        self._cleaner.start(now)

    def stop(self) -> None:
        """Begin no more long work: the node is about to stop."""
        self._cleaner.stop()

    def _delete_expired(self, now: Now) -> None:
        """Apply retention to every log."""
        for partition in self._replicas:
            if partition.log.health.offline_reason is None:
                with suppress(DiskError):
                    self._delete_expired_of(partition, now)

    def _delete_expired_of(self, partition: Partition, now: Now) -> None:
        for removed in partition.delete_expired(now):
            self._fetchers.tell(partition.name)
            self._runtime.announce(
                SegmentDeleted(
                    partition=partition.name,
                    base_offset=removed.base_offset,
                    start_offset=partition.log.start_offset,
                    size_bytes=removed.size_bytes,
                    cause=removed.cause,
                )
            )

    def _checkpoint_high_watermarks(self, now: Now) -> None:
        for directory in self._online():
            jobs = directory.checkpoints.high_watermark_jobs(self._marks_of(directory))
            write_down(self._runtime.jobs, now, directory, jobs)

    def _checkpoint_everything(self, now: Now) -> None:
        for directory in self._online():
            jobs = directory.checkpoints.jobs(self._marks_of(directory))
            write_down(self._runtime.jobs, now, directory, jobs)

    def _marks_of(self, directory: LogDirectory) -> Callable[[], Offsets]:
        return lambda: self._replicas.high_watermarks(directory.logs)

    def _expire_producers(self, now: Now) -> None:
        for partition in self._replicas:
            partition.log.producers.expire(now.wall_ms)

    def _shrink_in_sync(self, now: Now) -> None:
        for partition in self._replicas:
            leader = partition.leading
            if leader is not None and partition.log.health.offline_reason is None:
                leader.shrink_if_due(now)  # in a failed directory nobody could have fetched from it

    def _every_second(self, now: Now) -> None:
        """Remove files whose time has come, flush what has rolled or waits for too long."""
        for directory in self._online():
            with suppress(DiskError):
                directory.sweep(now)
        for partition in self._replicas:
            if partition.log.needs_flush(now):
                self._flushes.begin(partition.log)
            if partition.log.end_offset > partition.log.start_offset:
                self._flushes.identify(partition.log)
        self._metadata.take_snapshot_if_due(now)

    def _online(self) -> Iterator[LogDirectory]:
        for directory in self._directories:
            if directory.offline_reason is None:
                yield directory
