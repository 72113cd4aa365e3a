"""Three real brokers: leaders are killed, paused, stopped and wiped; nothing promised is lost."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.metadata import metadata
from tests.integration.promises import Writer, read_back
from tests.integration.raw import until

from tidelog.records.batch import whole_batches
from tidelog.testing.cluster import Cluster

TOPIC = "orders"
PARTITIONS = 3
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "1",
    "broker.reconnect.grace.ms": "0",
    "log.segment.delete.delay.ms": "1000",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers that notice trouble quickly, and a topic with three replicas."""
    with Cluster(tmp_path / "cluster", brokers=3, settings=QUICK) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": "2"}
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 3, config=config)])[TOPIC].result(20)
        yield running


def orders_for(cluster: Cluster) -> Writer:
    """A producer that notices changes quickly."""
    return Writer(
        cluster.bootstrap,
        TOPIC,
        PARTITIONS,
        reconnect_backoff_ms=10,
        reconnect_backoff_max_ms=100,
        topic_metadata_refresh_fast_interval_ms=20,
        retry_backoff_ms=20,
    )


def leaders(cluster: Cluster) -> dict[int, int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    partitions = metadata(admin, TOPIC).topics[TOPIC].partitions
    return {index: partition.leader for index, partition in partitions.items()}


def in_sync(cluster: Cluster) -> set[tuple[int, ...]]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    partitions = metadata(admin, TOPIC).topics[TOPIC].partitions
    return {tuple(sorted(partition.isrs)) for partition in partitions.values()}


def everyone_in_sync(cluster: Cluster) -> bool:
    return in_sync(cluster) == {(100, 101, 102)}


def settle(cluster: Cluster) -> None:
    """Wait until every replica is in sync again."""
    until(lambda: everyone_in_sync(cluster), within_s=30)


def replicas_are_identical(cluster: Cluster) -> bool:
    """Compare the segment files of all brokers, batch by batch."""
    for index in range(PARTITIONS):
        copies = []
        for node_id in cluster.node_ids:
            directory = cluster.data(node_id) / f"{TOPIC}-{index}"
            data = b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))
            copies.append([bytes(batch) for _, batch in whole_batches(data)])
        shortest = min(map(len, copies))
        if shortest == 0 or any(copy[:shortest] != copies[0][:shortest] for copy in copies):
            return False
    return True


def prove(cluster: Cluster, orders: Writer) -> None:
    """Nothing promised is lost, nothing is there twice, all replicas hold the same."""
    orders.finish()
    settle(cluster)
    found = read_back(cluster.bootstrap, TOPIC, [0] * PARTITIONS, orders.promised)
    assert len(found) == len(set(found))
    assert replicas_are_identical(cluster)


def test_a_killed_leader_loses_nothing_and_rejoins(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    orders.send(2000)
    victim = next(leader for leader in leaders(cluster).values() if leader != 100)
    cluster.kill(victim)
    orders.send_until(lambda: victim not in leaders(cluster).values())
    orders.send(2000)
    cluster.start(victim)
    orders.send_until(lambda: everyone_in_sync(cluster))
    prove(cluster, orders)


def test_a_paused_leader_is_deposed_and_its_tail_is_cut(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    orders.send(1000)
    victim = next(leader for leader in leaders(cluster).values() if leader != 100)
    cluster.pause(victim)
    try:
        orders.send_until(lambda: victim not in leaders(cluster).values())
        orders.send(1000)
    finally:
        cluster.resume(victim)
    orders.send_until(lambda: everyone_in_sync(cluster))
    prove(cluster, orders)


def test_a_killed_controller_comes_back_and_nothing_is_lost(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    orders.send(1000)
    cluster.kill(100)
    orders.send(1000)
    cluster.start(100)
    orders.send_until(lambda: everyone_in_sync(cluster))
    prove(cluster, orders)


def test_a_wiped_broker_gets_everything_again(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    orders.send(2000)
    orders.finish()
    cluster.kill(102)
    for directory in cluster.data(102).glob(f"{TOPIC}-*"):
        shutil.rmtree(directory)
    cluster.start(102)
    orders.send_until(lambda: everyone_in_sync(cluster))
    prove(cluster, orders)


def test_a_broker_that_is_asked_to_stop_hands_over_and_leadership_returns(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    before = leaders(cluster)
    orders.send(1000)
    cluster.stop(101)
    orders.send(1000)
    assert 101 not in leaders(cluster).values()
    cluster.start(101)
    orders.send_until(lambda: leaders(cluster) == before)
    prove(cluster, orders)


def test_everyone_killed_at_once_brings_everything_back(cluster: Cluster) -> None:
    orders = orders_for(cluster)
    orders.send(3000)
    orders.finish()
    for node_id in cluster.node_ids:
        cluster.kill(node_id)
    cluster.local.start()
    orders.send_until(lambda: everyone_in_sync(cluster))
    prove(cluster, orders)
