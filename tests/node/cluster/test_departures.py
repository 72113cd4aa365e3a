"""What clients are told of a broker that has just gone, so that they go on as soon as they can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.node.core.delayed_requests import LONGEST_MS
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.cluster.conftest import Cluster, NewCluster

GRACE_MS = 200
LISTED_MS = 5_000


def started(new_cluster: NewCluster, **settings: str) -> Cluster:
    cluster = new_cluster(3, auto_leader_rebalance_enable="false", **settings)
    cluster.start()
    cluster.create_topic("orders", factor=3)
    cluster.wait(1000)
    return cluster


@pytest.fixture
def three(new_cluster: NewCluster) -> Cluster:
    return started(new_cluster)


def told(cluster: Cluster, by: int) -> tuple[int, int, set[int]]:
    """Error and leader of the partition, and which brokers are listed."""
    answer = cluster.client(by).ask(
        ApiKey.METADATA, 12, topics=[{"name": "orders"}], allow_auto_topic_creation=False
    )
    [partition] = answer.topics[0].partitions
    brokers = {each.node_id for each in answer.brokers}
    return int(partition.error_code), int(partition.leader_id), brokers


def others(cluster: Cluster) -> tuple[int, int]:
    """The leader, and a follower without a controller."""
    leader = told(cluster, 100)[1]
    [follower] = {101, 102} - {leader}
    return leader, follower


def test_whoever_asks_for_a_leader_that_has_just_gone_is_told_of_the_next_one(
    three: Cluster,
) -> None:
    """Told of no leader, or of the old one, clients wait on their own: librdkafka for a second."""
    leader, follower = others(three)
    three[leader].kill()
    three.wait(5)
    asked_ms = three.now.monotonic_ms
    error, elected, listed = told(three, follower)
    assert (error, listed) == (0, {100, 101, 102})
    assert elected not in (leader, -1)
    assert three.now.monotonic_ms - asked_ms <= 2 * GRACE_MS


def test_nobody_waits_for_longer_than_a_second(three: Cluster) -> None:
    leader, follower = others(three)
    for node_id in {100, leader}:
        three[node_id].kill()
    three.wait(5)
    asked_ms = three.now.monotonic_ms
    assert told(three, follower)[1] == leader, "there is nobody to decide"
    assert 2 * GRACE_MS < three.now.monotonic_ms - asked_ms <= LONGEST_MS


def test_who_asks_for_other_topics_does_not_wait(three: Cluster) -> None:
    leader, follower = others(three)
    three[leader].kill()
    three.wait(5)
    asked_ms = three.now.monotonic_ms
    three.client(follower).ask(ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False)
    assert three.now.monotonic_ms - asked_ms < GRACE_MS


def test_in_other_answers_a_leader_whose_connection_broke_is_not_named(three: Cluster) -> None:
    leader, follower = others(three)
    three[leader].kill()
    three.wait(5)
    answer = three.client(follower).ask(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[{"name": "orders"}]
    )
    [partition] = answer.topics[0].partitions
    assert (partition.error_code, partition.leader_id) == (ErrorCode.leader_not_available, -1)


def test_a_broker_fenced_just_now_stays_in_the_list_for_a_while(three: Cluster) -> None:
    leader, follower = others(three)
    three[leader].kill()
    three.wait(2 * GRACE_MS)
    assert three[follower].image.brokers[leader].fenced
    assert leader in told(three, follower)[2]
    three.wait(LISTED_MS)
    assert leader not in told(three, follower)[2]


def test_a_broker_that_is_back_is_no_longer_in_doubt(three: Cluster) -> None:
    leader, follower = others(three)
    three[leader].kill()
    three[leader].start()
    three.wait_until(lambda: bool(three[leader].listeners), 20_000)
    three.wait(1000)
    error, elected, listed = told(three, follower)
    assert (error, listed) == (0, {100, 101, 102})
    assert elected != -1


def test_without_a_grace_clients_are_told_what_the_metadata_says(new_cluster: NewCluster) -> None:
    cluster = started(new_cluster, broker_disconnect_grace_ms="0")
    leader, follower = others(cluster)
    cluster[leader].kill()
    cluster.wait(5)
    assert told(cluster, follower) == (0, leader, {100, 101, 102})


def test_what_a_controller_decides_is_to_be_sent_to_whoever_answers(three: Cluster) -> None:
    for node_id in (100, 101, 102):
        answer = three.client(node_id).ask(
            ApiKey.METADATA, 12, topics=[], allow_auto_topic_creation=False
        )
        assert answer.controller_id == node_id
