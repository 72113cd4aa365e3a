"""Retention on three real brokers while records are written and read: the disks stay small."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import suppress

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tidelog.testing.cluster import Cluster

TOPIC = "readings"
COUNT = 4_000
SIZE = 10_000
PER_S = 500
AHEAD = 50
"""So many records a reader may be behind: far less than is kept."""
BOUNDED = 15_000_000
"""Of the forty million bytes that are written."""
SETTINGS = {
    "log.retention.check.interval.ms": "200",
    "log.initial.task.delay.ms": "200",
    "log.segment.delete.delay.ms": "200",
}
LIMITS = {
    "size": {"retention.bytes": "3145728", "segment.bytes": "1048576"},
    "time": {"retention.ms": "500", "segment.ms": "200"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3, settings=SETTINGS) as running:
        yield running


def size_on(cluster: Cluster, node_id: int, topic: str) -> int:
    size = 0
    for file in (cluster.data(node_id) / f"{topic}-0").glob("*.log"):
        with suppress(FileNotFoundError):  # retention has just renamed it
            size += file.stat().st_size
    return size


def create(bootstrap: str, topic: str, limit: Mapping[str, str]) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    config = {"min.insync.replicas": "2", **limit}
    admin.create_topics([NewTopic(topic, 1, 3, config=config)])[topic].result(20)


@pytest.mark.parametrize("limit", LIMITS)
def test_a_reader_that_keeps_up_misses_nothing_of_a_log_that_stays_small(
    cluster: Cluster, limit: str
) -> None:
    topic = f"{TOPIC}-by-{limit}"
    create(cluster.bootstrap, topic, LIMITS[limit])
    producer = Producer({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    reader = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "live",
            "enable.auto.commit": False,
            "log_level": 0,
        }
    )
    reader.assign([TopicPartition(topic, 0, 0)])
    read: list[int] = []
    sizes: list[int] = []
    began = time.monotonic()
    for number in range(COUNT):
        producer.produce(topic, b"%d " % number * (SIZE // len(b"%d " % number)), partition=0)
        producer.poll(0)
        while len(read) + AHEAD <= number:
            read += [numbered(message.value()) for message in reader.consume(AHEAD, 20)]
        if number % 200 == 199:
            time.sleep(max(0.0, began + number / PER_S - time.monotonic()))
            sizes += [size_on(cluster, node_id, topic) for node_id in cluster.node_ids]
    assert producer.flush(30) == 0
    while len(read) < COUNT:
        read += [numbered(message.value()) for message in reader.consume(AHEAD, 20)]

    assert read == list(range(COUNT))
    assert max(sizes) < BOUNDED
    start, end = reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=20)
    assert (start > COUNT // 2, end) == (True, COUNT)
    reader.close()


def numbered(value: bytes) -> int:
    return int(value.split(b" ", 1)[0])
