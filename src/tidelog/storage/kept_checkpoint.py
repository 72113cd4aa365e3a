"""A checkpoint file whose content is remembered, so that it is written only when it changes.

Invariant  `offsets` is what is on disk.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from tidelog.model.ids import TopicPartition
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.filesystem import FileSystem


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
