"""A log as a row of segments: which one takes the next append, how much of it is durable.

Invariant  start_offset <= end_offset and recovery_point <= end_offset.
Invariant  A new segment begins at the end of the log, so that segments follow without a gap.
Invariant  The topic id is durable before the recovery point moves past the first record: what is
           lost with it was never said to be on disk.
Invariant  A log has no second segment before the name of its first one is durable: what a loss of
           power leaves has no hole at its beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final, Protocol
from uuid import UUID

from tidelog.model.entropy import Entropy
from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.storage.directory_health import DirectoryHealth
from tidelog.storage.filesystem import FileSystem
from tidelog.storage.flush import FlushJob, FlushState
from tidelog.storage.leader_epoch_cache import FILE_NAME as EPOCHS_FILE
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_values import Damage
from tidelog.storage.offset_index import RELATIVE_OFFSET_MAX
from tidelog.storage.producer_state import ProducerState
from tidelog.storage.removals import Removals
from tidelog.storage.segment import Segment
from tidelog.storage.segments import Segments
from tidelog.storage.tail_batches import TailBatches
from tidelog.storage.truncation import Lower

UNKNOWN_TIMESTAMP: Final = -2


class Lowering(Protocol):
    """Makes durable that less is written down about a log; in several turns, each a job."""

    def run(self) -> None:
        """Block; raises `DiskError`."""
        ...

    def done(self, error: str | None) -> bool:
        """It has run: whether it must run once more."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class LogPlace:
    """What a log needs from its surroundings."""

    files: FileSystem
    directory: str
    entropy: Entropy
    health: DirectoryHealth
    lowered: Callable[[], None]
    """Called before a log is cut below a recovery point that may be on disk: lower that first."""
    lowering: Callable[[Lower], Lowering | None]
    """The same as a job, None when there is nothing to lower."""


@dataclass(slots=True, kw_only=True)
class LogContent:
    """What a start found, or what a new log begins with."""

    segments: Segments
    epochs: LeaderEpochCache
    producers: ProducerState
    start_offset: int
    end_offset: int
    recovery_point: int
    is_identified: bool
    """The topic id, and the name of the directory, are durable."""
    names_durable: bool
    """No file was created or removed since the directory was last synced."""
    damage: list[Damage] = field(default_factory=list)
    cut_bytes: int = 0


class SegmentedLog:
    """The part of a log that knows its files."""

    def __init__(
        self,
        partition: TopicPartition,
        topic_id: UUID,
        config: LogConfig,
        place: LogPlace,
        content: LogContent,
    ) -> None:
        self.partition = partition
        self.topic_id = topic_id
        self.place = place
        self.health = place.health
        self.segments = content.segments
        self.epochs = content.epochs
        self.producers = content.producers
        self.start_offset = content.start_offset
        self.end_offset = content.end_offset
        self.damage = content.damage
        """Flushed records that the last start found missing."""
        self.cut_bytes = content.cut_bytes
        """How much the last start cut off because it was never whole."""
        self.flushes = FlushState(
            content.recovery_point,
            names_durable=content.names_durable,
            is_identified=content.is_identified,
        )
        self.first_dirty_offset = 0
        """Everything below was cleaned, if the log is a compacted one."""
        self.tail = TailBatches(content.end_offset)
        self.removals = Removals()
        self._config = config
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    @property
    def directory(self) -> str:
        """The path of the log's own directory."""
        return self.place.directory

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self.segments.active.index_interval = config.index_interval_bytes
        self.producers.expiry_ms = config.producer_expiry_ms
        self.producers.verify_transactions = config.verify_transactions
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    @property
    def recovery_point(self) -> int:
        """Everything below is durable."""
        return self.flushes.recovery_point

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self.segments)

    # Rolling

    def segment_for(
        self, size: int, first: int, last: int, max_timestamp: int, now: Now
    ) -> Segment:
        """The segment an append goes to, a new one if it is time for that."""
        segment = self.segments.active
        if self._must_roll(segment, size, last, max_timestamp, now):
            base = self.end_offset
            return self.roll(now, base if last - base <= RELATIVE_OFFSET_MAX else first)
        if segment.size and segment.first_timestamp >= 0:
            limit = self._config.segment_ms - segment.jitter_ms
            self._roll_after_timestamp = segment.first_timestamp + limit
        return segment

    def _must_roll(
        self, segment: Segment, size: int, last: int, max_timestamp: int, now: Now
    ) -> bool:
        furthest = max(last - segment.base_offset, segment.size + size)
        if furthest > RELATIVE_OFFSET_MAX or segment.index_is_full:  # neither fits into an index
            return True
        if segment.size == 0 or not self.flushes.is_identified:
            return False
        began = segment.first_timestamp
        waited = max_timestamp - began if began >= 0 else now.monotonic_ms - segment.created_ms
        return (
            segment.size + size > self._config.segment_bytes
            or waited > self._config.segment_ms - segment.jitter_ms
        )

    def roll(self, now: Now, base_offset: int | None = None) -> Segment:
        """Begin a new segment at the end of the log."""
        base = self.end_offset if base_offset is None else base_offset
        self.segments.active.finish()
        self._take_snapshot(base)
        segment = self.new_segment(base, now)
        self.segments.add(segment)
        self.tail.restart(base)
        return segment

    def new_segment(self, base_offset: int, now: Now) -> Segment:
        """An empty segment with its files, not yet part of the log."""
        segment = Segment.create(
            self.place.files, self.directory, base_offset, self._config, self.place.entropy, now
        )
        self.flushes.names_changed()
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP
        return segment

    def ends_at(self, offset: int) -> None:
        """The log was cut to `offset`."""
        self.end_offset = offset
        self.tail.restart(offset)
        self.damage = [
            damage._replace(next_offset=min(damage.next_offset, offset))
            for damage in self.damage
            if damage.first_offset < offset
        ]
        self._roll_after_timestamp = UNKNOWN_TIMESTAMP

    def _take_snapshot(self, offset: int) -> None:
        if not self.place.files.exists(self.producers.snapshots.path(offset)):
            self.producers.take_snapshot(offset)
            self.flushes.snapshot_taken(offset)
            self.flushes.names_changed()

    # Durability

    def needs_flush(self, now: Now) -> bool:
        """Whether a flush is due: after a roll, or by `flush.messages` and `flush.ms`."""
        if self.health.offline_reason is not None:
            return False
        return self.flushes.is_due(self.segments, self.end_offset, self._config, now)

    def owes_flush(self, now: Now) -> bool:
        """Whether `flush.messages` or `flush.ms` want a flush before anything is answered."""
        if self.health.offline_reason is not None:
            return False
        return self.flushes.is_owed(self.end_offset, self._config, now)

    def flush_job(self) -> FlushJob | None:
        """Everything not yet durable, as a job to run elsewhere; then call `flushed`."""
        if self.health.offline_reason is not None:
            return None
        return self.flushes.job(
            self.place.files,
            self.directory,
            self.segments,
            self.producers.snapshots,
            self.epochs,
            self.end_offset,
        )

    def identity_job(self) -> FlushJob | None:
        """What a log begins with as a job, once; a flush sees to it as well."""
        if self.health.offline_reason is not None:
            return None
        return self.flushes.identity_job(self.place.files, self.directory)

    def settling_job(self) -> FlushJob | None:
        """What must run after a cut before a follower appends; None if nothing must."""
        if self.flushes.is_settled or self.health.offline_reason is not None:
            return None
        return self.flushes.settling_job(self.place.files, self.directory)

    def flushed(self, job: FlushJob) -> None:
        """The job has run without failing."""
        self.flushes.done(job)

    def flush_failed(self, _job: FlushJob, reason: str) -> None:
        """The job failed: what it should have made durable never will be."""
        self.flushes.ended()
        self.health.fail(reason)

    def sync(self) -> None:
        """Make everything durable, here and now."""
        job = self.flush_job()
        if job is None:
            return
        try:
            job.run()
        except DiskError as error:
            self.flush_failed(job, str(error))
            raise
        self.flushed(job)

    # The end

    def sweep(self, now: Now) -> int:
        """Remove files set aside long enough ago; not while a job may be at work on them."""
        with self.health:
            self.health.require()
            return 0 if self.flushes.jobs_under_way else self.removals.sweep(now)

    def close(self) -> None:
        """Leave the log so that the next start need not read it; nothing more if it failed."""
        if self.health.offline_reason is None:
            with self.health:
                self.segments.active.finish()
                if self.end_offset > self.segments.first.base_offset:
                    self._take_snapshot(self.end_offset)
                self.sync()
        self.release()

    def release(self) -> None:
        """Give every file back, as it is."""
        for segment in self.segments:
            segment.close()
        self.removals.close()

    def moved_to(self, directory: str) -> None:
        """The directory was renamed: go by the new name from now on."""
        self.place = replace(self.place, directory=directory)
        self.epochs.moved_to(f"{directory}/{EPOCHS_FILE}")
        self.producers.moved_to(directory)
        for segment in self.segments:
            segment.moved_to(directory)
        self.removals.moved_to(directory)
