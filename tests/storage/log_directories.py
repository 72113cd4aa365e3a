"""A directory of logs in memory, with what tests do to one."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from tidelog.model.errors import Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import AcceptedBatch
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import OffsetCheckpoint
from tidelog.storage.identity import DirectoryIdentity, write_identity
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog

PATH: Final = "/data"
MARKER: Final = f"{PATH}/.kafka_cleanshutdown"
ORDERS: Final = TopicPartition("orders", 0)
PAYMENTS: Final = TopicPartition("payments", 3)
NOW: Final = Now(0, 1_700_000_000_000)


class Dice:
    def __init__(self) -> None:
        self._drawn = 0

    def uuid(self) -> UUID:
        self._drawn += 1
        return UUID(int=self._drawn)

    def below(self, bound: int) -> int:
        return 0


def formatted() -> MemoryFileSystem:
    """A disk with an empty data directory."""
    files = MemoryFileSystem()
    files.make_directory(PATH)
    files.sync_directory("/")
    write_identity(files, PATH, DirectoryIdentity("cluster", 1, UUID(int=500)))
    return files


def started(files: MemoryFileSystem, **settings: Any) -> LogDirectory:
    directory = LogDirectory(files, PATH, Dice())
    directory.begin()
    directory.load(NOW, lambda _partition: LogConfig(**settings))
    return directory


def add(log: PartitionLog, count: int = 1) -> None:
    data = build_batch([NewRecord(None, b"value", NOW.wall_ms)] * count)
    appended = log.append_as_leader(AcceptedBatch(read_header(data), memoryview(data)), 0, NOW)
    assert not isinstance(appended, Refusal), appended


def create(directory: LogDirectory, partition: TopicPartition, count: int = 0) -> PartitionLog:
    log = directory.create_log(partition, UUID(int=7), LogConfig(file_delete_delay_ms=100), NOW)
    for _ in range(count):
        add(log)
    return log


def checkpoint(files: MemoryFileSystem, name: str) -> dict[TopicPartition, int]:
    return OffsetCheckpoint(files, f"{PATH}/{name}").read()
