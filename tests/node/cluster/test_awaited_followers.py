"""A partition with a new leader takes writes at once, whatever its followers are waiting for."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.node.cluster.test_replication import leader_of, produce, replica

from tidelog.model.ids import TopicPartition

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

PARTITIONS = 6
HASTE_MS = 1_000


@pytest.fixture
def three(new_cluster: NewCluster) -> Cluster:
    """Every node leads something, so that each follower's fetch at each leader is parked."""
    cluster = new_cluster(3, auto_leader_rebalance_enable="false")
    cluster.start()
    cluster.create_topic("orders", partitions=PARTITIONS, factor=3)
    cluster.wait(5_000)
    return cluster


def led_by(cluster: Cluster, node_id: int) -> TopicPartition:
    names = (TopicPartition("orders", index) for index in range(PARTITIONS))
    return next(name for name in names if leader_of(cluster, name) == node_id)


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_a_new_leader_commits_without_waiting_for_parked_fetches(three: Cluster, end: str) -> None:
    name = led_by(three, 101)
    getattr(three[101], end)()
    three.wait_until(lambda: leader_of(three, name) not in (101, -1), 20_000)
    leader = leader_of(three, name)
    three.wait_until(lambda: replica(three, leader, name).is_leader, 100)
    before_ms = three.now.monotonic_ms
    assert produce(three, name) == 0
    assert three.now.monotonic_ms - before_ms <= 30


def test_haste_ends_when_the_followers_have_asked(three: Cluster) -> None:
    name = led_by(three, 101)
    three[101].stop()
    three.wait_until(lambda: leader_of(three, name) not in (101, -1), 20_000)
    assert produce(three, name) == 0
    assert not three[leader_of(three, name)].node.rooms.replicas.awaited


def test_haste_ends_after_a_second_for_a_follower_that_does_not_ask(three: Cluster) -> None:
    three[102].is_paused = True
    three[101].kill()
    three.wait(3 * HASTE_MS)
    three[102].is_paused = False
    three.wait(3 * HASTE_MS)
    for machine in three.machines.values():
        assert not machine.is_running or not machine.node.rooms.replicas.awaited
