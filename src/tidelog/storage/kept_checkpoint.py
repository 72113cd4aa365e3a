"""A checkpoint file whose content is remembered, so that it is written only when it changes.

Invariant  `offsets` has every entry that the file has or, after a power cut, may have again.
Invariant  What a job wrote takes the file's place only if nothing was written since the job was
           made, and if it claims no more than is true by then: nothing old replaces what is newer.
Invariant  No second job is made before what the first one wrote was taken, or thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.model.ids import TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.filesystem import FileSystem

Offsets: TypeAlias = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointJob:
    """Content to be written; `run` blocks and may be called from any thread, once."""

    kept: KeptCheckpoint
    file: OffsetCheckpoint
    offsets: Offsets
    true_now: Callable[[], Offsets]
    revision: int

    def run(self) -> None:
        """Write it beside the file; raises `DiskError` when that fails."""
        self.file.write_beside(self.offsets)

    def take(self) -> None:
        """It has run: let the file have what was written."""
        self.kept.take(self)

    def is_in_place(self) -> None:
        """The directory was synced after `take`."""
        self.kept.is_in_place(self)


class KeptCheckpoint:
    """One offset checkpoint of a log directory."""

    __slots__ = ("_content", "_file", "_is_written_elsewhere", "_revision", "offsets")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._file = OffsetCheckpoint(files, path)
        self._content: Offsets = {}
        self._revision = 0
        self._is_written_elsewhere = False
        self.offsets: Offsets = {}

    def read(self) -> None:
        self._now_has(self._file.read())

    def without(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What is on disk about all other partitions."""
        return {name: at for name, at in self.offsets.items() if name not in partitions}

    def write(self, offsets: Offsets) -> None:
        """Replace the content, durably, unless it is the same."""
        if offsets != self.offsets:
            self._file.write(offsets)
            self._now_has(dict(offsets))

    def job(self, true_now: Callable[[], Offsets]) -> CheckpointJob | None:
        """Replace the content elsewhere, if it changed and no job is at it; then `take` that."""
        if self._is_written_elsewhere:
            return None
        offsets = true_now()
        if offsets == self.offsets:
            return None
        self._is_written_elsewhere = True
        return CheckpointJob(self, self._file, dict(offsets), true_now, self._revision)

    def take(self, job: CheckpointJob) -> None:
        """The job has run: let the file have what it wrote, unless that is no longer so."""
        self._is_written_elsewhere = False
        true = job.true_now()
        news = job.offsets.items() - self._content.items()
        if job.revision == self._revision and all(at <= true.get(name, 0) for name, at in news):
            before = self._content
            self._file.put_in_place()
            self._now_has(job.offsets)
            self.offsets = {
                name: max(before.get(name, 0), job.offsets.get(name, 0))
                for name in before.keys() | job.offsets.keys()
            }

    def is_in_place(self, job: CheckpointJob) -> None:
        """The directory was synced after `take`: nothing brings back what the file had before."""
        if self._content is job.offsets:
            self.offsets = job.offsets

    def _now_has(self, offsets: Offsets) -> None:
        self._content = self.offsets = offsets
        self._revision += 1
