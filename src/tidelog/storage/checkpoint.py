"""Offset checkpoints: one offset per partition of a log directory, in a small text file.

Invariant  After a crash the file has the old or the new content, never a mix.
Invariant  A file that cannot be read in full says nothing at all: the caller then takes the
           conservative value. It is never a reason not to start.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.storage.checkpoint_text import decode_checkpoint, encode_checkpoint, number
from tidelog.storage.filesystem import FileSystem, read_all, write_atomically, write_whole

RECOVERY_POINTS: Final = "recovery-point-offset-checkpoint"
HIGH_WATERMARKS: Final = "replication-offset-checkpoint"
LOG_STARTS: Final = "log-start-offset-checkpoint"
FIRST_DIRTY: Final = "cleaner-offset-checkpoint"
_NEXT: Final = ".next"


class OffsetCheckpoint:
    """One such file."""

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
