"""Compaction on three real brokers: the table survives cleaning, failover and a wiped disk."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.raw import until

from tidelog.client.admin import Admin
from tidelog.client.blocking import Client
from tidelog.testing.cluster import Cluster

TOPIC = "accounts"
KEYS = 500
SMALL = 2_500_000
"""Of what was written, more than ten million bytes, a part that only cleaning can reach."""
BOUNDED = 7_000_000
"""A part of the eighteen million bytes that are written under load."""
SETTINGS = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "log.cleaner.backoff.ms": "200",
    "log.segment.delete.delay.ms": "500",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", brokers=3, settings=SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        config = {
            "cleanup.policy": "compact",
            "segment.bytes": "1048576",
            "min.cleanable.dirty.ratio": "0.3",
            "min.insync.replicas": "2",
        }
        admin.create_topics([NewTopic(TOPIC, 1, 3, config=config)])[TOPIC].result(20)
        yield running


class Accounts:
    """Writes new values of keys, and remembers the newest."""

    def __init__(self, bootstrap: str) -> None:
        self.table: dict[bytes, bytes] = {}
        self._round = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )

    def write(self, rounds: int) -> None:
        for _ in range(rounds):
            self._round += 1
            for number in range(KEYS):
                key = b"account %d" % number
                value = b"%04d " % self._round * 80
                if number % 11 == self._round % 11:
                    self._producer.produce(TOPIC, None, key=key)
                    self.table.pop(key, None)
                else:
                    self._producer.produce(TOPIC, value, key=key)
                    self.table[key] = value
            self._producer.poll(0)
        assert self._producer.flush(60) == 0


def read_table(bootstrap: str) -> dict[bytes, bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "reconnect.backoff.max.ms": 100,
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    table: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(30)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return table
        if message.value() is None:
            table.pop(message.key(), None)
        else:
            table[message.key()] = message.value()


def is_small_everywhere(cluster: Cluster) -> bool:
    return all(size_on(cluster, node_id) < SMALL for node_id in cluster.node_ids)


def size_on(cluster: Cluster, node_id: int) -> int:
    size = 0
    for file in (cluster.data(node_id) / f"{TOPIC}-0").glob("*.log"):
        with suppress(FileNotFoundError):  # the cleaner has just renamed it
            size += file.stat().st_size
    return size


def in_sync(cluster: Cluster) -> list[int]:
    with Client(cluster.bootstrap) as client:
        (partition,) = Admin(client).topics([TOPIC]).topics[TOPIC].partitions
        return sorted(partition.in_sync)


def leader_of(cluster: Cluster) -> int:
    with Client(cluster.bootstrap) as client:
        (partition,) = Admin(client).topics([TOPIC]).topics[TOPIC].partitions
        return int(partition.leader)


def test_the_table_survives_cleaning_failover_and_a_wiped_disk(cluster: Cluster) -> None:
    accounts = Accounts(cluster.bootstrap)
    accounts.write(60)
    until(lambda: is_small_everywhere(cluster), within_s=60)
    assert read_table(cluster.bootstrap) == accounts.table

    victim = next(node_id for node_id in (leader_of(cluster), 101, 102) if node_id != 100)
    cluster.kill(victim)
    accounts.write(20)
    assert read_table(cluster.bootstrap) == accounts.table
    shutil.rmtree(cluster.data(victim) / f"{TOPIC}-0")
    cluster.start(victim)
    until(lambda: in_sync(cluster) == cluster.node_ids, within_s=60)
    accounts.write(40)
    until(lambda: is_small_everywhere(cluster), within_s=60)

    for node_id in cluster.node_ids:
        if node_id != 100:
            until(lambda: in_sync(cluster) == cluster.node_ids, within_s=60)
            cluster.kill(node_id)
            assert read_table(cluster.bootstrap) == accounts.table
            cluster.start(node_id)


def test_a_table_under_load_stays_small_and_survives_the_death_of_every_broker(
    cluster: Cluster,
) -> None:
    accounts = Accounts(cluster.bootstrap)
    sizes: list[int] = []
    began = time.monotonic()
    for step in range(30):
        time.sleep(max(0.0, began + step / 2 - time.monotonic()))
        accounts.write(3)
        sizes += [size_on(cluster, node_id) for node_id in cluster.node_ids]
    assert max(sizes) < BOUNDED

    for node_id in cluster.node_ids:
        cluster.kill(node_id)
    cluster.local.start()
    until(lambda: in_sync(cluster) == cluster.node_ids, within_s=60)
    assert read_table(cluster.bootstrap) == accounts.table
    accounts.write(1)
    assert read_table(cluster.bootstrap) == accounts.table
