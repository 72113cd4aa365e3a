"""What is written down about the logs of a directory.

Invariant  No recovery point on disk is above what is durable, nor a log start above the log's own,
           nor is a log said to be cleaned further than it is.
Invariant  What is written down of a log that is yet to be loaded stays.
Invariant  What was lowered for a cut stays low until the log is cut, whatever is lowered for others
           meanwhile; or until the cut is given up, of which nobody tells.
Invariant  What is written down of a deleted log never speaks for a new one of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tidelog.model.ids import TopicPartition
from tidelog.storage.checkpoint import (
    FIRST_DIRTY,
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    CheckpointJob,
    KeptCheckpoint,
    Offsets,
)
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.log_place import Lower
from tidelog.storage.partition_log import PartitionLog


class DirectoryCheckpoints:
    """The four files; `logs` gives all that are loaded."""

    def __init__(
        self, files: FileSystem, path: str, logs: Callable[[], Iterable[PartitionLog]]
    ) -> None:
        self._logs = logs
        self.recovery_points = KeptCheckpoint(files, f"{path}/{RECOVERY_POINTS}")
        self.log_starts = KeptCheckpoint(files, f"{path}/{LOG_STARTS}")
        self.high_watermarks = KeptCheckpoint(files, f"{path}/{HIGH_WATERMARKS}")
        self.first_dirty = KeptCheckpoint(files, f"{path}/{FIRST_DIRTY}")
        self._all = (self.recovery_points, self.log_starts, self.high_watermarks, self.first_dirty)
        self.all_loaded = False
        """Whether a log that `logs` does not give is none."""
        self._lowered: dict[TopicPartition, Lower] = {}
        self._lowered_before: dict[TopicPartition, Lower] = {}
        """Logs that are about to be cut; those from before the last round are forgotten with it."""

    def read(self) -> None:
        for checkpoint in self._all:
            checkpoint.read()

    # On the spot

    def write(self, high_watermarks: Offsets) -> None:
        """Write down everything that changed, durably."""
        self._lowered, self._lowered_before = {}, {}
        self._write(self.recovery_points, self._recovery_points())
        self._write(self.log_starts, self._log_starts())
        self._write(self.high_watermarks, high_watermarks)
        self._write(self.first_dirty, self._first_dirty())

    def forget_deleted(self, partition: TopicPartition) -> None:
        """A new log is about to get the name of one that may have been deleted."""
        for checkpoint in self._all:
            if partition in checkpoint.offsets:
                checkpoint.write(self._still_here(checkpoint))

    def lower(self, log: PartitionLog) -> None:
        """A log is about to be cut: nothing on disk may claim more for it than will be there."""
        name = log.partition
        self._lowered.pop(name, None)
        self._lowered_before.pop(name, None)
        if self.recovery_points.offsets.get(name, 0) > log.recovery_point:
            self._write(self.recovery_points, self._recovery_points())
        if self.log_starts.offsets.get(name, 0) > log.start_offset:
            self._write(self.log_starts, self._log_starts())
        if self.first_dirty.offsets.get(name, 0) > log.first_dirty_offset:
            self._write(self.first_dirty, self._first_dirty())

    def lowering(self, log: PartitionLog, lower: Lower) -> list[CheckpointJob] | None:
        """Jobs for what claims too much of a log that is to be cut; None when nothing does.

        There may be none although something does: then ask again once the jobs under way are done.
        """
        name = log.partition
        self._lowered[name] = lower
        found = (
            (self.recovery_points, self._recovery_points, lower.recovery_point),
            (self.log_starts, self._log_starts, lower.start_offset),
            (self.first_dirty, self._first_dirty, lower.recovery_point),
        )
        claiming = [each for each in found if each[0].offsets.get(name, 0) > each[2]]
        if not claiming:
            return None
        return [
            job for checkpoint, offsets, _ in claiming for job in self._jobs(checkpoint, offsets)
        ]

    def forgetting(self, partition: TopicPartition) -> list[CheckpointJob] | None:
        """The same for a deleted log, before a new one can get its name."""
        claiming = [
            (checkpoint, offsets)
            for checkpoint, offsets in (
                (self.recovery_points, self._recovery_points),
                (self.log_starts, self._log_starts),
                (self.first_dirty, self._first_dirty),
                (self.high_watermarks, lambda: self._still_here(self.high_watermarks)),
            )
            if partition in checkpoint.offsets
        ]
        if not claiming:
            return None
        return [job for checkpoint, offsets in claiming for job in self._jobs(checkpoint, offsets)]

    def _still_here(self, checkpoint: KeptCheckpoint) -> Offsets:
        here = {log.partition for log in self._logs()}
        return {name: at for name, at in checkpoint.content.items() if name in here}

    def _write(self, checkpoint: KeptCheckpoint, offsets: Offsets) -> None:
        checkpoint.write(self._completed(checkpoint, offsets))

    # By jobs

    def jobs(self, high_watermarks: Callable[[], Offsets]) -> list[CheckpointJob]:
        """For whatever changed, but for how far logs are cleaned, which the cleaner sees to."""
        self._lowered, self._lowered_before = {}, self._lowered
        return [
            *self._jobs(self.recovery_points, self._recovery_points),
            *self._jobs(self.log_starts, self._log_starts),
            *self.high_watermark_jobs(high_watermarks),
        ]

    def high_watermark_jobs(self, high_watermarks: Callable[[], Offsets]) -> list[CheckpointJob]:
        """For the high watermarks alone, if one changed."""
        return self._jobs(self.high_watermarks, high_watermarks)

    def first_dirty_jobs(self) -> list[CheckpointJob]:
        """For how far every log is cleaned, also one that is compacted no longer: it may be one
        again."""
        return self._jobs(self.first_dirty, self._first_dirty)

    def _jobs(
        self,
        checkpoint: KeptCheckpoint,
        offsets: Callable[[], Offsets],
    ) -> list[CheckpointJob]:
        job = checkpoint.job(lambda: self._completed(checkpoint, offsets()))
        return [] if job is None else [job]

    # What is true

    def _completed(self, checkpoint: KeptCheckpoint, offsets: Offsets) -> Offsets:
        """The offsets, beside what still holds for logs that are yet to be loaded."""
        if self.all_loaded:
            return offsets
        loaded = {log.partition for log in self._logs()}
        return {**checkpoint.without(loaded), **offsets}

    def _recovery_points(self) -> dict[TopicPartition, int]:
        found = {log.partition: log.recovery_point for log in self._logs()}
        return self._at_most(found, lambda lower: lower.recovery_point)

    def _log_starts(self) -> dict[TopicPartition, int]:
        found = {
            log.partition: log.start_offset
            for log in self._logs()
            if log.start_offset > log.segments.first.base_offset
        }
        return self._at_most(found, lambda lower: lower.start_offset)

    def _first_dirty(self) -> dict[TopicPartition, int]:
        found = {
            log.partition: log.first_dirty_offset
            for log in self._logs()
            if log.first_dirty_offset > 0
        }
        return self._at_most(found, lambda lower: lower.recovery_point)

    def _at_most(
        self, found: dict[TopicPartition, int], most: Callable[[Lower], int]
    ) -> dict[TopicPartition, int]:
        """What there is, less of logs that are about to be cut."""
        for name, lower in (*self._lowered_before.items(), *self._lowered.items()):
            if name in found:
                found[name] = min(found[name], most(lower))
        return found
