"""Throttles between whole nodes: of replication, and of what a broker passes on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.node.cluster.test_replication import (
    ORDERS,
    in_sync,
    is_settled,
    leader_of,
    produce,
    replica,
)

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

TOPIC, BROKER = 2, 4
BATCH = b"x" * 10_000
BATCHES = 20
RATE = 20_000


def alter(cluster: Cluster, kind: int, name: str, **settings: str) -> None:
    """Set settings, with underscores in the place of dots."""
    resource = {
        "resource_type": kind,
        "resource_name": name,
        "configs": [
            {"name": key.replace("_", "."), "config_operation": 0, "value": value}
            for key, value in settings.items()
        ],
    }
    answer = cluster.client(100).ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    assert [each.error_code for each in answer.responses] == [0]
    cluster.wait(10)


def reassign(cluster: Cluster, name: TopicPartition, replicas: list[int]) -> None:
    partition = {"partition_index": name.partition, "replicas": replicas}
    answer = cluster.client(100).ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        timeout=1000,
        topics=[{"name": name.topic, "partitions": [partition]}],
    )
    assert answer.error_code == 0


@pytest.fixture
def behind(new_cluster: NewCluster) -> Cluster:
    """A topic of three replicas, one of which has missed 200 kB and does not run yet."""
    cluster = new_cluster(3, replica_fetch_max_bytes="20200")
    cluster.start()
    cluster.create_topic("orders", 1, 3)
    cluster.wait_until(lambda: is_settled(cluster, 0), 5000)
    cluster[102].kill()
    cluster.wait_until(lambda: 102 not in in_sync(cluster), 60_000)
    for _ in range(BATCHES):
        assert produce(cluster, value=BATCH) == 0
    return cluster


def catch_up_ms(cluster: Cluster) -> int:
    """How long the replica that was gone takes until it is in sync."""
    cluster.start(102)
    return cluster.wait_until(lambda: 102 in in_sync(cluster), 60_000)


def test_without_a_throttle_a_replica_catches_up_at_once(behind: Cluster) -> None:
    assert catch_up_ms(behind) < 2_000


@pytest.mark.parametrize("side", ["leader", "follower"])
@pytest.mark.parametrize("named", ["*", "0:100,0:101,0:102"])
def test_a_throttled_replica_catches_up_at_the_rate_and_holds_up_nobody(
    behind: Cluster, side: str, named: str
) -> None:
    alter(behind, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": named})
    alter(behind, BROKER, "", **{f"{side}_replication_throttled_rate": str(RATE)})
    behind.start(102)
    behind.wait(2_000)
    assert 102 not in in_sync(behind)
    before_ms = behind.now.monotonic_ms
    assert produce(behind) == 0
    assert behind.now.monotonic_ms - before_ms < 100
    waited_ms = 2_000 + behind.wait_until(lambda: 102 in in_sync(behind), 60_000)
    expected_ms = BATCHES * len(BATCH) * 1000 / RATE
    assert 0.6 * expected_ms < waited_ms < 1.6 * expected_ms
    behind.wait_until(lambda: is_settled(behind, BATCHES + 1), 5_000)


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_that_a_topic_does_not_name_are_not_held_up(behind: Cluster, side: str) -> None:
    alter(behind, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": "1:100,0:7"})
    alter(behind, BROKER, "", **{f"{side}_replication_throttled_rate": "1"})
    assert catch_up_ms(behind) < 2_000


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttled_topic_holds_up_no_other_one(behind: Cluster, side: str) -> None:
    other, leader = TopicPartition("payments", 0), leader_of(behind)
    behind.create_topic("payments", 1, 1)
    reassign(behind, other, [leader])
    behind.wait_until(lambda: leader_of(behind, other) == leader, 5_000)
    assert produce(behind, other, value=BATCH) == 0
    alter(behind, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": "*"})
    alter(behind, BROKER, "", **{f"{side}_replication_throttled_rate": "1"})
    behind.start(102)
    behind.wait_until(lambda: replica(behind, 102).log.end_offset > 0, 5_000)
    reassign(behind, other, [leader, 102])
    behind.wait_until(lambda: 102 in in_sync(behind, other), 5_000)
    assert replica(behind, 102).log.end_offset < BATCHES


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_throttle_that_is_lifted_holds_up_nobody_any_more(behind: Cluster, side: str) -> None:
    alter(behind, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": "*"})
    alter(behind, BROKER, "", **{f"{side}_replication_throttled_rate": "1"})
    behind.start(102)
    behind.wait(5_000)
    assert replica(behind, 102).log.end_offset < BATCHES
    alter(behind, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": ""})
    assert behind.wait_until(lambda: 102 in in_sync(behind), 60_000) < 3_000


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_replicas_in_sync_are_not_held_up(new_cluster: NewCluster, side: str) -> None:
    cluster = new_cluster(3)
    cluster.start()
    cluster.create_topic("orders", 1, 3)
    cluster.wait_until(lambda: is_settled(cluster, 0), 5000)
    alter(cluster, TOPIC, "orders", **{f"{side}_replication_throttled_replicas": "*"})
    alter(cluster, BROKER, "", **{f"{side}_replication_throttled_rate": "1"})
    for _ in range(BATCHES):
        before_ms = cluster.now.monotonic_ms
        assert produce(cluster, value=BATCH) == 0
        assert cluster.now.monotonic_ms - before_ms < 100
    rates = {
        getattr(machine.node.rooms.base.replication_throttles, side).bytes_per_second
        for machine in cluster.machines.values()
    }
    assert max(rates) > 1_000
    assert set(in_sync(cluster)) == {100, 101, 102}
    assert replica(cluster, 100).name == ORDERS


# What is passed on


def new_topic(name: str, partitions: int) -> dict[str, Any]:
    return {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": [],
        "configs": [],
    }


def test_a_client_is_throttled_by_the_broker_for_what_the_controller_counted(
    cluster: Cluster,
) -> None:
    quota = {
        "entity": [{"entity_type": "client-id", "entity_name": "test"}],
        "ops": [{"key": "controller_mutation_rate", "value": 1.0, "remove": False}],
    }
    altered = cluster.client(101).ask(
        ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[quota], validate_only=False
    )
    assert [entry.error_code for entry in altered.entries] == [0]
    client = cluster.client(101)
    answer = client.ask(
        ApiKey.CREATE_TOPICS, 7, topics=[new_topic("a", 12), new_topic("b", 1)], timeout=1000
    )
    assert [topic.error_code for topic in answer.topics] == [
        0,
        ErrorCode.throttling_quota_exceeded,
    ]
    told_ms = answer.throttle_time.total_seconds() * 1000
    assert 900 < told_ms <= 1_000
    assert not client.is_read
    assert cluster[100].unread == [], "others ask through the same broker"
    cluster.wait(1_000)
    assert client.is_read
