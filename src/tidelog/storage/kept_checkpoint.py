"""A checkpoint file whose content is remembered, so that it is written only when it changes.

Invariant  `offsets` is what the file has; after a power cut it may have less of what a job wrote,
           but never an entry that `offsets` does not have.
Invariant  What a job wrote takes the file's place only if it claims no more than is true by then.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidelog.model.ids import TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True, eq=False)
class CheckpointJob:
    """Content to be written; `run` blocks and may be called from any thread, once."""

    file: OffsetCheckpoint
    offsets: Mapping[TopicPartition, int]

    def run(self) -> None:
        """Write it beside the file; raises `DiskError` when that fails."""
        self.file.write_beside(self.offsets)


class KeptCheckpoint:
    """One offset checkpoint of a log directory."""

    __slots__ = ("_file", "offsets")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._file = OffsetCheckpoint(files, path)
        self.offsets: Mapping[TopicPartition, int] = {}

    def read(self) -> None:
        self.offsets = self._file.read()

    def without(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What is on disk about all other partitions."""
        return {name: at for name, at in self.offsets.items() if name not in partitions}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        if offsets != self.offsets:
            self._file.write(offsets)
            self.offsets = dict(offsets)

    def job(self, offsets: Mapping[TopicPartition, int]) -> CheckpointJob | None:
        """These offsets beside all others, as a job to run elsewhere; then call `take`."""
        merged = {**self.offsets, **offsets}
        return CheckpointJob(self._file, merged) if merged != self.offsets else None

    def take(self, job: CheckpointJob, true: Mapping[TopicPartition, int]) -> None:
        """The job has run: let the file have what it wrote, unless a log was cut meanwhile."""
        news = job.offsets.items() - self.offsets.items()
        if all(offset <= true.get(name, 0) for name, offset in news):
            self._file.put_in_place()
            self.offsets = job.offsets
