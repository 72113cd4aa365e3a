"""Which replicas lie in a set of log directories, and what their checkpoints say.

Invariant  Only files are read, never a broker asked: the audit works on a cluster that is down, on
           a copy of its disks, and on the directories of Apache Kafka.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tidelog.model.ids import METADATA_TOPIC, TopicPartition
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.spark.errors import OptionError, SourceError
from tidelog.storage.checkpoint import FIRST_DIRTY, HIGH_WATERMARKS, OffsetCheckpoint
from tidelog.storage.identity import read_identity


class SegmentFile(NamedTuple):
    """One segment of one replica."""

    partition: TopicPartition
    broker: int
    path: str
    size: int

    @property
    def base_offset(self) -> int:
        return int(os.path.basename(self.path).removesuffix(".log"))


class Marks(NamedTuple):
    """What the checkpoints of all directories say about one partition."""

    high_watermark: int
    """The highest that any replica has noted: everything below it is committed."""
    first_uncleaned: int
    """Below it compaction has been at work, on each replica in its own way."""


class LogDirectories:
    """The log directories of a cluster."""

    def __init__(self, paths: Iterable[str]) -> None:
        self.paths = sorted({os.path.abspath(path) for path in paths})
        if not self.paths:
            raise OptionError("no log directory: name the log.dirs of every broker")
        self._files = OsFileSystem()

    def topics(self) -> set[str]:
        """The topics that have a directory in any of them."""
        names = (name for path in self.paths if os.path.isdir(path) for name in os.listdir(path))
        found = (TopicPartition.from_directory(name) for name in names)
        return {each.topic for each in found if each is not None}

    def segments(self, topics: Iterable[str] = ()) -> Iterator[SegmentFile]:
        """Every segment of the topics, or of all but the cluster's own metadata."""
        wanted = frozenset(topics)
        for path in self.paths:
            broker = self._broker(path)
            for name in sorted(os.listdir(path)):
                partition = TopicPartition.from_directory(name)
                if partition is None or not os.path.isdir(os.path.join(path, name)):
                    continue
                if partition.topic in wanted if wanted else partition.topic != METADATA_TOPIC:
                    yield from _segments(partition, broker, os.path.join(path, name))

    def marks(self) -> Mapping[TopicPartition, Marks]:
        """The high watermark and the cleaned part of every partition."""
        high: dict[TopicPartition, int] = {}
        cleaned: dict[TopicPartition, int] = {}
        for path in self.paths:
            for name, found in ((HIGH_WATERMARKS, high), (FIRST_DIRTY, cleaned)):
                noted = OffsetCheckpoint(self._files, os.path.join(path, name)).read()
                for partition, offset in noted.items():
                    found[partition] = max(offset, found.get(partition, 0))
        return {each: Marks(mark, cleaned.get(each, 0)) for each, mark in high.items()}

    def _broker(self, path: str) -> int:
        if not os.path.isdir(path):
            raise SourceError(f"there is no log directory {path}")
        identity = read_identity(self._files, path)
        if identity is None:
            raise SourceError(
                f"{path} is not a log directory: it has no meta.properties. Name the directory "
                "that holds topic-partition directories"
            )
        return identity.node_id


def _segments(partition: TopicPartition, broker: int, directory: str) -> Iterator[SegmentFile]:
    for name in sorted(os.listdir(directory)):
        if name.endswith(".log") and name.removesuffix(".log").isdigit():
            path = os.path.join(directory, name)
            yield SegmentFile(partition, broker, path, os.path.getsize(path))
