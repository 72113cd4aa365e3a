"""One directory of `log.dirs`: its identity, the logs in it and what is written down about them.

Invariant  The marker of a clean stop is gone for good before anything is loaded, and comes back
           only when all that was loaded is closed and durable.
Invariant  After a failure in the directory nothing in it is written down any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.entropy import Entropy
from tidelog.model.errors import ConfigError, DiskError, invariant
from tidelog.model.ids import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from tidelog.model.time import Now
from tidelog.storage.checkpoint import CheckpointJob, Offsets
from tidelog.storage.directory_checkpoints import DirectoryCheckpoints
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.identity import (
    UNKNOWN_BROKER_EPOCH,
    DirectoryIdentity,
    delete_clean_shutdown,
    read_clean_shutdown,
    read_identity,
    read_topic_id,
    write_clean_shutdown,
)
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import DirectoryHealth, LogPlace, Lower, Lowering
from tidelog.storage.partition_log import PartitionLog
from tidelog.storage.recovery import create_log, load_log
from tidelog.storage.segment import LOG

METADATA_PARTITION: Final = TopicPartition(METADATA_TOPIC, 0)
_DELETE: Final = "-delete"
_STRAY: Final = "-stray"
_NAME_LENGTH_MAX: Final = 255
_Removal: TypeAlias = tuple[int, str, PartitionLog | None]
_REMOVED_PER_SWEEP: Final = 20
"""Directories of deleted logs; removing files may block, and a topic can have thousands of logs."""


class DurableCheckpoints:
    """Checkpoints that must be on disk for good before something else may happen.

    In two turns: one writes beside the files; then they change their names, on the loop as ever,
    and the other one makes the names durable. Without jobs it is only a place in the row.
    """

    def __init__(self, directory: LogDirectory, jobs: Sequence[CheckpointJob]) -> None:
        self._directory = directory
        self._jobs = jobs
        self._is_written = False

    def run(self) -> None:
        """Write, then sync; raises `DiskError`."""
        if self._is_written:
            self._directory.sync_names()
        else:
            for job in self._jobs:
                job.run()

    def done(self, error: str | None) -> bool:
        """It has run: whether it must run once more."""
        if self._is_written and error is None:
            for job in self._jobs:
                job.is_in_place()
            return False
        if self._is_written:
            self._directory.health.fail(error or "")
            return False
        self._is_written = True
        with suppress(DiskError):  # noted in `offline_reason`
            self._directory.checkpoints_written(self._jobs, error)
        return bool(self._jobs) and self._directory.offline_reason is None


class Loading:
    """The logs of a directory on their way from files; `run` blocks, on any thread, once."""

    def __init__(self, names: Sequence[str], load_entry: Callable[[str, Loading], None]) -> None:
        self._names = names
        self._load_entry = load_entry
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.removals: list[_Removal] = []
        self.is_given_up = False
        """Nobody wants them any more: the node is about to stop."""

    def run(self) -> None:
        """Load one after the other; raises `DiskError` at the first failure."""
        for name in self._names:
            if self.is_given_up:
                return
            self._load_entry(name, self)


class LogDirectory:
    """Made for a formatted directory; `begin` must come before anything else is asked of it."""

    def __init__(self, files: FileSystem, path: str, entropy: Entropy) -> None:
        identity = read_identity(files, path)
        if identity is None:
            raise ConfigError(f"{path} is not formatted: run `tidelog format` for it first")
        self.identity: DirectoryIdentity = identity
        self.path = path
        self.health = DirectoryHealth()
        self.logs: dict[TopicPartition, PartitionLog] = {}
        self.metadata_log: PartitionLog | None = None
        self.was_clean = False
        """Whether the last stop left everything in order."""
        self.previous_broker_epoch = UNKNOWN_BROKER_EPOCH
        self._files = files
        self._entropy = entropy
        self.checkpoints = DirectoryCheckpoints(files, path, self._all_logs)
        self._begun = False
        self._removals: list[_Removal] = []

    @property
    def offline_reason(self) -> str | None:
        """Why nothing in here can be used any more; None while all is well."""
        return self.health.offline_reason

    @property
    def high_watermarks(self) -> Offsets:
        """As they were last written down."""
        return self.checkpoints.high_watermarks.content

    # Starting

    def begin(self) -> None:
        """Take the marker of a clean stop away and read the checkpoints; comes before any log."""
        with self.health:
            broker_epoch = read_clean_shutdown(self._files, self.path)
            self.was_clean = broker_epoch is not None
            if broker_epoch is not None:
                self.previous_broker_epoch = broker_epoch
            delete_clean_shutdown(self._files, self.path)
            self.checkpoints.read()
            self._begun = True

    def load(
        self, now: Now, config_of: Callable[[TopicPartition], LogConfig]
    ) -> dict[TopicPartition, PartitionLog]:
        """Load every log but the metadata log, here and now."""
        loading = self.loading(now, config_of)
        with self.health:
            loading.run()
        return self.loaded(loading)

    def loading(self, now: Now, config_of: Callable[[TopicPartition], LogConfig]) -> Loading:
        """Every log but the metadata log as a job; then call `loaded`."""
        invariant(self._begun, "the marker of a clean stop is read before any log")
        with self.health:
            names = self._files.list(self.path)
        partitions = (TopicPartition.from_directory(name) for name in names)
        configs = {name: config_of(name) for name in partitions if name is not None}
        return Loading(names, lambda name, into: self._load_entry(name, now, configs, into))

    def loaded(self, loading: Loading) -> dict[TopicPartition, PartitionLog]:
        """The job has run without failing: what it found is in service."""
        self.logs.update(loading.logs)
        self._removals += loading.removals
        self.checkpoints.all_loaded = True
        return self.logs

    def load_metadata_log(self, now: Now, config: LogConfig) -> PartitionLog:
        """The log of the metadata quorum, made if it is not there."""
        invariant(self._begun, "the marker of a clean stop is read before any log")
        with self.health:
            place = self._place(METADATA_PARTITION)
            known = METADATA_PARTITION in self.checkpoints.recovery_points.offsets
            if known or self._has_begun(place.directory):  # formatting leaves no log
                self._files.make_directory(place.directory)
                log = self._load_log(METADATA_PARTITION, METADATA_TOPIC_ID, config, now)
            else:
                log = create_log(METADATA_PARTITION, METADATA_TOPIC_ID, config, place, now)
                self._files.sync_directory(self.path)  # a vote may stand in it before a record does
            self.metadata_log = log
            return log

    def _load_entry(
        self, name: str, now: Now, configs: Mapping[TopicPartition, LogConfig], into: Loading
    ) -> None:
        path = f"{self.path}/{name}"
        if not self._files.is_directory(path):
            return
        partition = TopicPartition.from_directory(name)
        if name.endswith(_DELETE):
            into.removals.append((now.monotonic_ms, path, None))
        elif partition is not None and partition != METADATA_PARTITION:
            topic_id = read_topic_id(self._files, path)
            if topic_id is not None:
                log = self._load_log(partition, topic_id, configs[partition], now)
                into.logs[partition] = log
            elif self._holds_records(path):
                self._rename(partition, _STRAY)
            else:  # it never got a record, which would have come after its topic id
                self._files.remove_directory(path)

    def _load_log(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, now: Now
    ) -> PartitionLog:
        cleaned_to = self.checkpoints.first_dirty.offsets.get(partition, 0)
        log = load_log(
            partition,
            topic_id,
            config,
            self._place(partition),
            now,
            clean=self.was_clean,
            recovery_point=self.checkpoints.recovery_points.offsets.get(partition),
            log_start=self.checkpoints.log_starts.offsets.get(partition),
            cleaned_to=cleaned_to,
        )
        log.first_dirty_offset = cleaned_to
        return log

    def _has_begun(self, path: str) -> bool:
        return read_topic_id(self._files, path) is not None or self._holds_records(path)

    def _holds_records(self, path: str) -> bool:
        return any(
            self._files.size(f"{path}/{name}") > 0
            for name in self._files.list(path)
            if name.endswith(LOG)
        )

    def _place(self, partition: TopicPartition) -> LogPlace:
        return LogPlace(
            files=self._files,
            directory=f"{self.path}/{partition}",
            entropy=self._entropy,
            health=self.health,
            lowered=lambda: self._lower(partition),
            lowering=lambda lower: self._lowering(partition, lower),
        )

    # Coming and going

    def create_log(
        self, partition: TopicPartition, topic_id: UUID, config: LogConfig, now: Now
    ) -> PartitionLog:
        """An empty log for a new partition."""
        invariant(
            self.checkpoints.all_loaded, "what is on disk is known before anything new is made"
        )
        invariant(partition not in self.logs, f"{partition} is in {self.path} already")
        with self.health:
            place = self._place(partition)
            if self._files.is_directory(place.directory):
                self._rename(partition, _STRAY)
            self.checkpoints.forget_deleted(partition)
            log = create_log(partition, topic_id, config, place, now)
        self.logs[partition] = log
        return log

    def delete_log(self, partition: TopicPartition, now: Now) -> None:
        """Take a log out of service at once; its files go after `file.delete.delay.ms`."""
        log = self.logs.pop(partition)
        with self.health:
            path = self._rename(partition, _DELETE)
        log.moved_to(path)
        due_ms = now.monotonic_ms + log.config.file_delete_delay_ms
        self._removals.append((due_ms, path, log))

    def set_aside_stray(self, partition: TopicPartition) -> str:
        """Take a log out of service that belongs to no partition of this node, and keep it."""
        log = self.logs.pop(partition)
        log.release()
        with self.health:
            path = self._rename(partition, _STRAY)
        log.moved_to(path)
        return path

    def sweep(self, now: Now) -> None:
        """Remove what was deleted long enough ago, here and in every log; not all of it at once."""
        with self.health:
            self.health.require()
            for log in self._all_logs():
                log.sweep(now)
            kept, left = [], _REMOVED_PER_SWEEP
            for due_ms, path, log_or_none in self._removals:
                busy = log_or_none is not None and log_or_none.flushes.jobs_under_way > 0
                if left == 0 or due_ms > now.monotonic_ms or busy:
                    kept.append((due_ms, path, log_or_none))
                    continue
                if log_or_none is not None:
                    log_or_none.release()
                self._files.remove_directory(path)
                left -= 1
            self._removals = kept

    def _rename(self, partition: TopicPartition, suffix: str) -> str:
        ending = f".{self._entropy.uuid().hex}{suffix}"
        name = str(partition)[: _NAME_LENGTH_MAX - len(ending)] + ending
        path = f"{self.path}/{name}"
        self._files.rename(f"{self.path}/{partition}", path)
        return path

    # Writing down

    def write_checkpoints(self, high_watermarks: Offsets) -> None:
        """Write down all that changed, durably. Blocks; who may not block takes a job."""
        if self.health.offline_reason is None:
            with self.health:
                self.checkpoints.write(high_watermarks)

    def checkpoints_written(self, jobs: Iterable[CheckpointJob], error: str | None) -> None:
        """Jobs of `checkpoints` have run."""
        if error is not None:
            self.health.fail(error)
        elif self.health.offline_reason is None:
            with self.health:
                for job in jobs:
                    job.take()

    def _lower(self, partition: TopicPartition) -> None:
        log = self._find(partition)
        if log is not None:
            self.checkpoints.lower(log)

    def _lowering(self, partition: TopicPartition, lower: Lower) -> Lowering | None:
        log = self._find(partition)
        jobs = None if log is None else self.checkpoints.lowering(log, lower)
        return None if jobs is None else DurableCheckpoints(self, jobs)

    def forgetting(self, partition: TopicPartition) -> Lowering | None:
        """What must run before `create_log` can do so without waiting for the disk."""
        jobs = self.checkpoints.forgetting(partition)
        return None if jobs is None else DurableCheckpoints(self, jobs)

    def sync_names(self) -> None:
        """Make the names in this directory durable. May block: run it in a job."""
        self._files.sync_directory(self.path)

    def _find(self, partition: TopicPartition) -> PartitionLog | None:
        return self.metadata_log if partition == METADATA_PARTITION else self.logs.get(partition)

    def _all_logs(self) -> Iterator[PartitionLog]:
        yield from self.logs.values()
        if self.metadata_log is not None:
            yield self.metadata_log

    # Stopping

    def close(
        self,
        broker_epoch: int = UNKNOWN_BROKER_EPOCH,
        high_watermarks: Offsets | None = None,
    ) -> None:
        """Close every log; after a failure, or before all was loaded, the stop is not a clean one.

        Blocks until everything is durable.
        """
        with suppress(DiskError):  # noted in `offline_reason`
            for log in self._all_logs():
                log.close()
            if high_watermarks is None:
                high_watermarks = self.high_watermarks
            self.write_checkpoints(high_watermarks)
            if self.checkpoints.all_loaded and self.health.offline_reason is None:
                with self.health:
                    write_clean_shutdown(self._files, self.path, broker_epoch)
        self.checkpoints.all_loaded = False
