"""The cleaner of compacted logs: one pass at a time, over the dirtiest log, away from the loop.

Invariant  The loop does no more than change names: reading, writing and syncing are jobs, cut into
           slices so that a flush never waits for a whole pass.
Invariant  How far a log is cleaned is written down only after the swapped names are durable: a
           tombstone may go in a later pass only if what it deletes is gone for good. A crash before
           that makes the next start clean again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.core.checkpointing import write_down
from tidelog.node.core.effects import Lane
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.cleaning_events import CleaningFailed, LogCleaned
from tidelog.replication.partition import Partition
from tidelog.storage.compaction import (
    CleanerMemory,
    Compaction,
    DirtyRange,
    dirty_range,
    is_worth_cleaning,
    plan_compaction,
)
from tidelog.storage.log_directory import LogDirectory

RETRY_MS: Final = 300_000
"""A log that could not be read or written is left alone for so long."""


class Cleaner:
    """Looks for work by the clock; starts once the logs are loaded."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        directories: Sequence[LogDirectory],
        replicas: Replicas,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._directories = directories
        self._replicas = replicas
        self._not_before_ms: dict[TopicPartition, int] = {}
        self._stopping = False

    def start(self, now: Now) -> None:
        """Begin to look for dirty logs."""
        if self._cluster.config.log_cleaner_enable:
            self._look_after(self._cluster.config.log_cleaner_backoff_ms, now)

    def stop(self) -> None:
        """Let the slice under way be the last one."""
        self._stopping = True

    def _look_after(self, pause_ms: int, now: Now) -> None:
        # At least a little, or one look would follow the other within the same moment.
        self._runtime.deadlines.at(now.monotonic_ms + max(1, pause_ms), self._look)

    def _memory(self) -> CleanerMemory:
        config = self._cluster.config
        return CleanerMemory(
            config.log_cleaner_dedupe_buffer_size, config.log_cleaner_io_buffer_load_factor
        )

    def _look(self, now: Now) -> None:
        found = self._dirtiest(now)
        if found is None:
            self._look_after(self._cluster.config.log_cleaner_backoff_ms, now)
            return
        partition, dirty = found
        with suppress(DiskError), partition.log.health:
            plan = plan_compaction(partition.log, dirty, self._memory(), now)
            partition.log.flushes.begun()
            self._go_on(partition, Compaction(plan), dirty)
            return
        self._look_after(0, now)

    def _dirtiest(self, now: Now) -> tuple[Partition, DirtyRange] | None:
        found: list[tuple[bool, float, Partition, DirtyRange]] = []
        for partition in self._replicas:
            log = partition.log
            if not log.config.cleanup_compact or log.health.offline_reason is not None:
                continue
            if self._not_before_ms.get(partition.name, 0) > now.monotonic_ms:
                continue
            with suppress(DiskError), log.health:
                dirty = dirty_range(log, partition.last_stable_offset, now)
                if dirty is not None and is_worth_cleaning(log, dirty):
                    found.append((dirty.is_overdue, dirty.ratio, partition, dirty))
        if not found:
            return None
        _, _, partition, dirty = max(found, key=lambda candidate: candidate[:2])
        return partition, dirty

    def _go_on(self, partition: Partition, compaction: Compaction, dirty: DirtyRange) -> None:
        def finished(now: Now, error: str | None) -> None:
            if error is not None:
                self._failed(partition, error, now)
            elif not self._stopping and self._is_hosted(partition):
                try:
                    with partition.log.health:
                        if self._took_over(partition, compaction, now):
                            self._slice_done(partition, compaction, dirty, now)
                            return
                except DiskError as problem:
                    self._failed(partition, str(problem), now)
            self._give_up(partition, compaction, now)

        self._runtime.jobs.run(Lane.LONG, compaction.run_slice, finished)

    def _took_over(self, partition: Partition, compaction: Compaction, now: Now) -> bool:
        """Swap in what a slice finished; False when the log has changed too much for that."""
        log, cleaned = partition.log, compaction.finished
        log.health.require()
        if cleaned is not None:
            if not log.can_swap_in(*cleaned, compaction.plan.generation):
                return False
            compaction.finished = None
            log.swap_in(*cleaned, now)
        return True

    def _slice_done(
        self, partition: Partition, compaction: Compaction, dirty: DirtyRange, now: Now
    ) -> None:
        if compaction.is_done:
            self._pass_done(partition, compaction, dirty, now)
        else:
            self._go_on(partition, compaction, dirty)

    def _pass_done(
        self, partition: Partition, compaction: Compaction, dirty: DirtyRange, now: Now
    ) -> None:
        log = partition.log
        log.flushes.ended()
        if log.flushes.generation == compaction.plan.generation:
            log.first_dirty_offset = compaction.cleaned_to
        self._runtime.announce(
            LogCleaned(
                partition=partition.name,
                cleaned_to=compaction.cleaned_to,
                bytes_before=compaction.read_bytes,
                bytes_after=compaction.written_bytes,
                cause="max.compaction.lag.ms" if dirty.is_overdue else f"{dirty.ratio:.0%} dirty",
            )
        )
        self._write_down(partition, now)

    def _write_down(self, partition: Partition, now: Now) -> None:
        directory = self._directory_of(partition)
        if directory is None:
            self._look_after(0, now)
        else:
            jobs = directory.checkpoints.first_dirty_jobs()
            go_on = partial(self._look_after, 0)
            write_down(self._runtime.jobs, now, directory, jobs, go_on)

    def _failed(self, partition: Partition, error: str, now: Now) -> None:
        self._not_before_ms[partition.name] = now.monotonic_ms + RETRY_MS
        self._runtime.announce(
            CleaningFailed(partition=partition.name, retry_ms=RETRY_MS, cause=error)
        )

    def _give_up(self, partition: Partition, compaction: Compaction, now: Now) -> None:
        """End a pass before its end; what it has written goes, at the next start if we stop."""

        def removed(later: Now, _error: str | None) -> None:
            partition.log.flushes.ended()
            self._look_after(0, later)

        if self._stopping:
            partition.log.flushes.ended()
        else:
            self._runtime.jobs.run(Lane.LONG, compaction.abandon, removed)

    def _directory_of(self, partition: Partition) -> LogDirectory | None:
        """The one that the log is in, unless it was deleted meanwhile."""
        for directory in self._directories:
            if directory.logs.get(partition.name) is partition.log:
                return directory
        return None

    def _is_hosted(self, partition: Partition) -> bool:
        return self._replicas.get(partition.name) is partition
