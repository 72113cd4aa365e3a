"""One partition on a disk in memory."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, TypeAlias
from uuid import UUID

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import BatchRules
from tidelog.replication.partition import Leadership, Partition
from tidelog.storage.directory_health import DirectoryHealth
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_values import Appended
from tidelog.storage.memory_filesystem import MemoryFileSystem
from tidelog.storage.recovery import create_log
from tidelog.storage.segmented_log import LogPlace

NODE = 100


class SeededEntropy:
    def __init__(self) -> None:
        self._random = Random(1)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class Watching:
    """Somebody who notes what a partition tells."""

    def __init__(self) -> None:
        self.told: list[int] = []

    def partition_moved(self, new_bytes: int) -> None:
        self.told.append(new_bytes)


class PartitionBench:
    """A partition of which node 100 has a replica, not yet told what its role is."""

    def __init__(self, high_watermark: int = 0, **settings: Any) -> None:
        self.files = MemoryFileSystem()
        self.files.make_directory("/data")
        self.now = Now(0, 1_700_000_000_000)
        self.health = DirectoryHealth()
        place = LogPlace(
            files=self.files,
            directory="/data/orders-0",
            entropy=SeededEntropy(),
            health=self.health,
            lowered=lambda: None,
        )
        config = LogConfig(**settings)
        log = create_log(TopicPartition("orders", 0), UUID(int=9), config, place, self.now)
        self.partition = Partition(log, NODE, high_watermark, BatchRules())

    def lead(self, epoch: int, *others: int, partition_epoch: int | None = None) -> bool:
        """Let node 100 lead, with these others in sync."""
        members = (NODE, *others)
        at = epoch if partition_epoch is None else partition_epoch
        return self.partition.apply(Leadership(NODE, epoch, at, members, members))

    def follow(self, epoch: int, leader: int = 101) -> bool:
        members = (leader, NODE)
        return self.partition.apply(Leadership(leader, epoch, epoch, members, members))

    def append(self, *values: bytes) -> Appended:
        records = [NewRecord(b"key", value, self.now.wall_ms) for value in values or (b"a",)]
        appended = self.partition.append(memoryview(build_batch(records)), self.now, 9)
        assert isinstance(appended, Appended), appended
        return appended

    def watch(self) -> Watching:
        watching = Watching()
        self.partition.watch(watching)
        return watching


NewPartition: TypeAlias = Callable[..., PartitionBench]


@pytest.fixture
def new_partition() -> NewPartition:
    return PartitionBench


@pytest.fixture
def bench() -> PartitionBench:
    return PartitionBench()
