"""Making a log durable, apart from the thread that appends to it.

Invariant  A job names everything that must be durable before the recovery point may move to
           `up_to`: files, indexes, snapshots, the topic id, and the directory when names in it
           changed.
Invariant  A job made before a truncation moves no recovery point after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from tidelog.model.errors import invariant
from tidelog.model.time import Now
from tidelog.storage.filesystem import FileMissing, FileSystem
from tidelog.storage.identity import sync_topic_id
from tidelog.storage.leader_epoch_cache import LeaderEpochCache
from tidelog.storage.log_config import LogConfig
from tidelog.storage.producer_snapshot import ProducerSnapshots
from tidelog.storage.segments import Segments


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class FlushJob:
    """What to sync; `run` blocks and may be called from any thread, once."""

    up_to: int
    generation: int
    names_version: int
    identifies: bool
    """Topic id and first segment will be there for good."""
    steps: Sequence[Callable[[], None]]

    def run(self) -> None:
        """Sync everything; raises `DiskError` at the first failure."""
        for step in self.steps:
            step()


class FlushState:
    """How much of a log is durable, and what is on its way to be."""

    __slots__ = (
        "_began_with",
        "_dirty_since_ms",
        "_names_synced",
        "_names_version",
        "_requested",
        "_settled_with",
        "_snapshots",
        "generation",
        "identity_requested",
        "is_identified",
        "jobs_under_way",
        "recovery_point",
    )

    def __init__(self, recovery_point: int, *, names_durable: bool, is_identified: bool) -> None:
        self.recovery_point = recovery_point
        self.jobs_under_way = 0
        """Jobs that use files of the log, which therefore must not be closed."""
        self._requested = recovery_point
        self.generation = 0
        """Rises whenever the log is cut."""
        self._names_version = 0 if names_durable else 1
        self._names_synced = 0
        self._began_with = self._settled_with = 0
        """The version of names that has the present first segment."""
        self.is_identified = self.identity_requested = is_identified
        """Whether a loss of power leaves the topic id and the first segment."""
        self._snapshots: list[int] = []
        self._dirty_since_ms: int | None = None

    def names_changed(self) -> None:
        """A file was created, renamed or removed in the log's directory."""
        self._names_version += 1

    def began_anew(self) -> None:
        """Another segment is the first one, and a loss of power could take it."""
        self.names_changed()
        self._began_with = self._names_version
        self.is_identified = self.identity_requested = False

    def set_aside(self) -> None:
        """Segments were taken away, and a loss of power could bring them back."""
        self.names_changed()
        self._settled_with = self._names_version

    @property
    def is_settled(self) -> bool:
        """Whether segments that a cut took away are gone for good."""
        return self._names_synced >= self._settled_with

    def snapshot_taken(self, offset: int) -> None:
        """A producer snapshot was written that is not durable yet."""
        self._snapshots.append(offset)

    def lowered_to(self, offset: int) -> None:
        """The log was cut at `offset`: what lies above will be written anew."""
        self.recovery_point = min(self.recovery_point, offset)
        self._requested = self.recovery_point
        self.generation += 1

    def is_due(self, segments: Segments, end_offset: int, config: LogConfig, now: Now) -> bool:
        """Whether a segment was rolled, or records wait for longer than the topic allows."""
        rolled = segments.active.base_offset > self._requested
        return self.is_owed(end_offset, config, now) or (rolled and end_offset > self._requested)

    def is_owed(self, end_offset: int, config: LogConfig, now: Now) -> bool:
        """Whether more records wait, or for longer, than the topic allows."""
        waiting = end_offset - self._requested
        if waiting <= 0:
            self._dirty_since_ms = None
            return False
        if self._dirty_since_ms is None:
            self._dirty_since_ms = now.monotonic_ms
        return (
            waiting >= config.flush_messages
            or now.monotonic_ms - self._dirty_since_ms >= config.flush_ms
        )

    def job(
        self,
        files: FileSystem,
        directory: str,
        segments: Segments,
        snapshots: ProducerSnapshots,
        epochs: LeaderEpochCache,
        end_offset: int,
    ) -> FlushJob | None:
        """Everything not durable and not requested yet, as one job; None if there is nothing."""
        grew = end_offset != self._requested or self._names_version != self._names_synced
        if not grew and not any(segment.unsynced for segment in segments):
            return None
        steps: list[Callable[[], None]] = []
        for slot, segment in enumerate(segments):
            behind = segments.end_of(slot, end_offset) > self.recovery_point and segment.size > 0
            if behind or segment.unsynced:
                segment.unsynced = False
                segment.file.size()  # opened here, so that the job's thread need not
                steps.append(segment.sync)
        taken, self._snapshots = self._snapshots, []
        steps.extend(_sync_of(snapshots, offset) for offset in taken)
        if epochs.unsynced:
            steps.append(epochs.sync)
            self.names_changed()
        identifies = not self.is_identified
        if identifies:
            self.identity_requested = True
            steps.append(lambda: sync_topic_id(files, directory))
        elif self._names_version != self._names_synced:
            steps.append(lambda: _sync_names(files, directory))
        self._requested = end_offset
        self._dirty_since_ms = None
        self.begun()
        return FlushJob(
            up_to=end_offset,
            generation=self.generation,
            names_version=self._names_version,
            identifies=identifies,
            steps=steps,
        )

    def identity_job(self, files: FileSystem, directory: str) -> FlushJob | None:
        """The topic id alone, unless a job is or was at it."""
        if self.identity_requested:
            return None
        self.identity_requested = True
        self.begun()
        return FlushJob(
            up_to=self.recovery_point,
            generation=self.generation,
            names_version=self._names_version,
            identifies=True,
            steps=(lambda: sync_topic_id(files, directory),),
        )

    def settling_job(self, files: FileSystem, directory: str) -> FlushJob:
        """Let segments that a cut took away be gone for good."""
        self.begun()
        return FlushJob(
            up_to=self.recovery_point,
            generation=self.generation,
            names_version=self._names_version,
            identifies=False,
            steps=(lambda: _sync_names(files, directory),),
        )

    def done(self, job: FlushJob) -> None:
        """The job has run: the recovery point follows, unless the log was cut meanwhile."""
        self.ended()
        self._names_synced = max(self._names_synced, job.names_version)
        if job.generation == self.generation:
            self.recovery_point = max(self.recovery_point, job.up_to)
        if job.identifies and job.names_version >= self._began_with:
            self.is_identified = True  # a cut leaves the first segment where it is

    def begun(self) -> None:
        """A job that uses files of the log is under way."""
        self.jobs_under_way += 1

    def ended(self) -> None:
        """A job is no longer under way, whatever came of it."""
        invariant(self.jobs_under_way > 0, "a job ends once")
        self.jobs_under_way -= 1


def _sync_of(snapshots: ProducerSnapshots, offset: int) -> Callable[[], None]:
    return lambda: snapshots.sync(offset)


def _sync_names(files: FileSystem, directory: str) -> None:
    with suppress(FileMissing):  # the log was deleted meanwhile
        files.sync_directory(directory)
