"""Offset checkpoints: one offset per partition of a log directory, in a small text file.

Every checkpoint file has the same text form: version, number of entries, one entry a line.

Invariant  After a crash the file has the old or the new content, never a mix.
Invariant  A file that cannot be read in full says nothing at all: the caller then takes the
           conservative value. It is never a reason not to start.
Invariant  `KeptCheckpoint.offsets` has every entry that the file has or, after a power cut, may
           have again.
Invariant  What a job wrote takes the file's place only if nothing was written since the job was
           made, and if it claims no more than is true by then: nothing old replaces what is newer.
Invariant  No second job is made before what the first one wrote was taken, or thrown away.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.storage.filesystem import FileSystem, read_all, write_atomically, write_whole

VERSION: Final = "0"
RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
FIRST_DIRTY: Final = "cleaner-offset-checkpoint"
_NEXT: Final = ".next"
Offsets: TypeAlias = Mapping[TopicPartition, int]


def encode_checkpoint(entries: Iterable[Iterable[object]]) -> bytes:
    """Entries as lines of fields with one space between them."""
    lines = [" ".join(map(str, entry)) for entry in entries]
    return "\n".join((VERSION, str(len(lines)), *lines, "")).encode("ascii")


def decode_checkpoint(content: bytes, fields: int) -> list[list[str]]:
    """The fields of every entry; ValueError for anything that is not such a file in full.

    An empty file has no entries: it is what a broker finds that never wrote one.
    """
    if not content:
        return []
    version, *rest = content.decode("ascii").split("\n")
    if version.strip() != VERSION:
        raise ValueError(f"version {version!r} of a checkpoint file is not known")
    if len(rest) < 2 or rest.pop():
        raise ValueError("the last line has no end")
    count, *lines = rest
    entries = [line.split() for line in lines]
    if len(entries) != number(count.strip()):
        raise ValueError(f"{count} entries announced, {len(entries)} found")
    if any(len(entry) != fields for entry in entries):
        raise ValueError(f"an entry does not have {fields} fields")
    return entries


def number(field: str) -> int:
    """An epoch, partition or offset: digits and nothing else, ValueError otherwise."""
    if not (field.isascii() and field.isdigit()):
        raise ValueError(f"{field!r} is not a number from 0 up")
    return int(field)


class OffsetCheckpoint:
    """The file of one kind of offset."""

    __slots__ = ("_files", "path")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._files = files
        self.path = path

    def read(self) -> dict[TopicPartition, int]:
        """What was last written; nothing when the file is missing, damaged or unreadable."""
        try:
            lines = decode_checkpoint(read_all(self._files, self.path), fields=3)
            return {
                TopicPartition(topic, number(partition)): number(offset)
                for topic, partition, offset in lines
            }
        except (DiskError, ValueError):
            return {}

    def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Replace the file's content, durably."""
        write_atomically(self._files, self.path, _encoded(offsets))

    def write_beside(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Write what the file shall hold next beside it, and make durable what it holds now.

        May block: run it in a job.
        """
        write_whole(self._files, self.path + _NEXT, _encoded(offsets))
        self._files.sync_directory(self.path.rpartition("/")[0])

    def put_in_place(self) -> None:
        """Replace the file by what was written beside it; a power cut may undo that, no more."""
        self._files.rename(self.path + _NEXT, self.path)


def _encoded(offsets: Mapping[TopicPartition, int]) -> bytes:
    return encode_checkpoint([(*partition, at) for partition, at in sorted(offsets.items())])


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
    """One such file whose content is remembered, so that it is written only when it changes."""

    __slots__ = ("_file", "_is_written_elsewhere", "_revision", "content", "offsets")

    def __init__(self, files: FileSystem, path: str) -> None:
        self._file = OffsetCheckpoint(files, path)
        self.content: Offsets = {}
        """What the file has now."""
        self._revision = 0
        self._is_written_elsewhere = False
        self.offsets: Offsets = {}
        """The most that a power cut could let it say: what it has, or had before."""

    def read(self) -> None:
        self._now_has(self._file.read())

    def without(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """What the file says about all other partitions."""
        return {name: at for name, at in self.content.items() if name not in partitions}

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
        news = job.offsets.items() - self.content.items()
        if job.revision == self._revision and all(at <= true.get(name, 0) for name, at in news):
            before = self.content
            self._file.put_in_place()
            self._now_has(job.offsets)
            self.offsets = {
                name: max(before.get(name, 0), job.offsets.get(name, 0))
                for name in before.keys() | job.offsets.keys()
            }

    def is_in_place(self, job: CheckpointJob) -> None:
        """The directory was synced after `take`: nothing brings back what the file had before."""
        if self.content is job.offsets:
            self.offsets = job.offsets

    def _now_has(self, offsets: Offsets) -> None:
        self.content = self.offsets = offsets
        self._revision += 1
