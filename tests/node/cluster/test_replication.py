"""Whole nodes replicate: what was promised is everywhere, whoever leads."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.protocol.apis import ApiKey
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

    from tidelog.replication.partition import Partition

ORDERS = TopicPartition("orders", 0)


def batch(value: bytes = b"value") -> bytes:
    return bytes(build_batch([NewRecord(b"key", value, 1_700_000_000_000)]))


def replica(cluster: Cluster, node_id: int, name: TopicPartition = ORDERS) -> Partition:
    found = cluster[node_id].node.replicas.get(name)
    assert found is not None
    return found


def leader_of(cluster: Cluster, name: TopicPartition = ORDERS, seen_by: int = 100) -> int:
    image = cluster[seen_by].image.partition(*name)
    assert image is not None
    return image.leader


def produce(cluster: Cluster, name: TopicPartition = ORDERS, value: bytes = b"value") -> int:
    """Produce with acks=all at the leader; the error."""
    partition = {"index": name.partition, "records": batch(value)}
    answer = cluster.client(leader_of(cluster, name)).ask(
        ApiKey.PRODUCE,
        9,
        transactional_id=None,
        acks=-1,
        timeout=3000,
        topic_data=[{"name": name.topic, "partition_data": [partition]}],
    )
    [told] = answer.responses[0].partition_responses
    return int(told.error_code)


def ends(cluster: Cluster, name: TopicPartition = ORDERS) -> set[tuple[int, int]]:
    """End and mark of every replica that runs."""
    return {
        (each.log.end_offset, each.high_watermark.offset)
        for machine in cluster.machines.values()
        if machine.is_running and (each := machine.node.replicas.get(name)) is not None
    }


def in_sync(cluster: Cluster, name: TopicPartition = ORDERS) -> tuple[int, ...]:
    image = cluster[100].image.partition(*name)
    assert image is not None
    return image.isr


def is_settled(cluster: Cluster, end: int, name: TopicPartition = ORDERS) -> bool:
    return ends(cluster, name) == {(end, end)} and len(in_sync(cluster, name)) == 3


@pytest.fixture
def three(new_cluster: NewCluster) -> Cluster:
    """Three nodes with one partition on all of them."""
    cluster = new_cluster(3, auto_leader_rebalance_enable="false")
    cluster.start()
    cluster.create_topic("orders", factor=3)
    cluster.wait(1000)
    return cluster


def test_a_record_written_to_all_is_on_every_replica(three: Cluster) -> None:
    assert produce(three) == 0
    assert {end for end, _ in ends(three)} == {1}
    three.wait_until(lambda: is_settled(three, 1), 1000)


def test_marks_reach_the_end_everywhere_once_writes_stop(three: Cluster) -> None:
    for _ in range(10):
        assert produce(three) == 0
    three.wait_until(lambda: is_settled(three, 10), 1000)


def test_a_killed_leader_loses_nothing_that_was_promised(three: Cluster) -> None:
    before = leader_of(three)
    assert before != 100, "the controller is not to be killed here"
    assert produce(three) == 0
    three[before].kill()
    three.wait_until(lambda: leader_of(three) not in (before, -1), 20_000)
    three.wait_until(lambda: replica(three, leader_of(three)).is_leader, 1000)
    assert produce(three, value=b"next") == 0
    three[before].start()
    three.wait_until(lambda: is_settled(three, 2), 20_000)


def test_a_paused_follower_is_let_go_and_comes_back(three: Cluster) -> None:
    follower = next(node for node in (101, 102) if node != leader_of(three))
    three[follower].is_paused = True
    assert produce(three) in (0, ErrorCode.request_timed_out)
    three.wait_until(lambda: follower not in in_sync(three), 40_000)
    assert produce(three) == 0
    three[follower].is_paused = False
    three.wait_until(lambda: is_settled(three, 2), 20_000)


def test_a_wiped_follower_gets_everything_again(three: Cluster) -> None:
    follower = next(node for node in (101, 102) if node != leader_of(three))
    for _ in range(3):
        produce(three)
    three[follower].kill()
    three[follower].format()
    three.wait(1000)
    three[follower].start()
    three.wait_until(lambda: is_settled(three, 3), 20_000)


def test_a_topic_created_again_begins_at_nothing(three: Cluster) -> None:
    assert produce(three) == 0
    topic = {"name": "orders", "topic_id": None}
    three.client(100).ask(ApiKey.DELETE_TOPICS, 6, topics=[topic], timeout=1000)
    topic_id = three.create_topic("orders", factor=3)
    three.wait_until(lambda: is_settled(three, 0), 3000)
    assert produce(three) == 0
    three.wait_until(lambda: is_settled(three, 1), 3000)
    found: set[UUID | None] = {replica(three, node).log.topic_id for node in (100, 101, 102)}
    assert found == {topic_id}


def test_many_partitions_go_on_beside_one_that_cannot_be_followed(three: Cluster) -> None:
    three.create_topic("many", 6, factor=3)
    three.wait(2000)
    stuck = TopicPartition("many", 0)
    leader = leader_of(three, stuck)
    follower = next(node for node in (100, 101, 102) if node != leader)
    role = replica(three, follower, stuck).following
    assert role is not None
    role.failed_because = "the test says so"
    others = [TopicPartition("many", index) for index in range(1, 6)]
    for name in others:
        assert produce(three, name) == 0
    three.wait_until(lambda: all(is_settled(three, 1, name) for name in others), 3000)


def test_an_idle_cluster_has_nothing_to_tell(three: Cluster) -> None:
    three.create_topic("many", 50, factor=3)
    three.wait(3000)
    before = [len(each.events) for each in three.machines.values()]
    three.wait(60_000)
    assert [len(each.events) for each in three.machines.values()] == before
