"""One partition on a disk in memory, and three of them that follow each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from tests.replication.cluster import (
    ORDERS,
    START,
    TOPIC_ID,
    Cluster,
    SeededEntropy,
    follower_of,
    leader_of,
)
from tests.replication.controller import UNREGISTERED

from tidelog.model.time import Now
from tidelog.observe.events import Event
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import BatchRules
from tidelog.replication.follower import FollowerReplica
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.messages import LeaderAndIsr, ProposeInSyncReplicas
from tidelog.replication.partition import Partition
from tidelog.replication.replica_context import BrokerEligibility, ReplicaContext
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_place import DirectoryHealth, LogPlace
from tidelog.storage.log_values import Appended
from tidelog.storage.recovery import create_log

NODE = 100


class Watching:
    """Somebody who notes what a partition tells."""

    def __init__(self, *, wants_log_end: bool = False) -> None:
        self.wants_log_end = wants_log_end
        self.told: list[int] = []
        self.news = 0

    def partition_moved(self, new_bytes: int) -> None:
        self.told.append(new_bytes)

    def has_news(self) -> None:
        self.news += 1


class PartitionBench:
    """A partition of which node 100 has a replica, not yet told what its role is."""

    def __init__(self, high_watermark: int = 0, min_in_sync: int = 1, **settings: Any) -> None:
        self.files = MemoryFileSystem()
        self.files.make_directory("/data")
        self.now: Now = START
        self.health = DirectoryHealth()
        self.events: list[Event] = []
        self.proposals: list[ProposeInSyncReplicas] = []
        self.brokers: dict[int, BrokerEligibility] = {}
        place = LogPlace(
            files=self.files,
            directory="/data/orders-0",
            entropy=SeededEntropy(),
            health=self.health,
            lowered=lambda: None,
            lowering=lambda _lower: None,
        )
        log = create_log(ORDERS, TOPIC_ID, LogConfig(**settings), place, self.now)
        context = ReplicaContext(
            eligibility=self,
            propose=lambda _partition, proposal: self.proposals.append(proposal),
            announce=self.events.append,
        )
        self.partition = Partition(log, NODE, high_watermark, BatchRules(), min_in_sync, context)

    def of(self, broker_id: int) -> BrokerEligibility:
        return self.brokers.get(broker_id, UNREGISTERED)

    def lead(self, epoch: int, *others: int, partition_epoch: int | None = None) -> bool:
        """Let node 100 lead, with these others in sync."""
        members = (NODE, *others)
        at = epoch if partition_epoch is None else partition_epoch
        return self.partition.apply(LeaderAndIsr(NODE, epoch, at, members, members), self.now)

    def follow(self, epoch: int, leader: int = 101) -> bool:
        members = (leader, NODE)
        return self.partition.apply(LeaderAndIsr(leader, epoch, epoch, members, members), self.now)

    @property
    def leader(self) -> LeaderReplica:
        return leader_of(self.partition)

    @property
    def follower(self) -> FollowerReplica:
        return follower_of(self.partition)

    def append(self, *values: bytes) -> Appended:
        records = [NewRecord(b"key", value, self.now.wall_ms) for value in values or (b"a",)]
        appended = self.leader.append(memoryview(build_batch(records)), self.now, 9)
        assert isinstance(appended, Appended), appended
        return appended

    def watch(self, *, wants_log_end: bool = False) -> Watching:
        watching = Watching(wants_log_end=wants_log_end)
        self.partition.watchers.add(watching)
        return watching


NewPartition: TypeAlias = Callable[..., PartitionBench]
NewCluster: TypeAlias = Callable[..., Cluster]


@pytest.fixture
def new_partition() -> NewPartition:
    return PartitionBench


@pytest.fixture
def bench() -> PartitionBench:
    return PartitionBench()


@pytest.fixture
def new_cluster() -> NewCluster:
    return Cluster


@pytest.fixture
def cluster() -> Cluster:
    """Brokers 100, 101, 102; nobody leads yet."""
    return Cluster()
