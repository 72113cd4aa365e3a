"""Apache Kafka takes over a directory that we formatted and wrote, and finds everything in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewTopic, ResourceType
from tests.integration.raw import until

from tidelog.testing.cluster import Cluster

JARS = Path(__file__).parents[2] / ".cache" / "java" / "tools"
COUNT = 500


@contextmanager
def apache_kafka(properties: Path, log: Path) -> Iterator[None]:
    command = ["java", "-Xmx512m", "-cp", f"{JARS}/*", "kafka.Kafka", str(properties)]
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT)
    try:
        yield
    finally:
        process.terminate()
        assert process.wait(30) in (0, 143)


def read_all(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer(
        {"bootstrap.servers": bootstrap, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    found = consumer.consume(2 * COUNT, 30)
    consumer.close()
    return [message.value() for message in found]


def produce(bootstrap: str, numbers: range) -> None:
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    for number in numbers:
        producer.produce("orders", b"%d" % number)
    assert producer.flush(60) == 0


def test_apache_kafka_goes_on_where_we_stopped_and_we_where_it_stopped(tmp_path: Path) -> None:
    everything = [b"%d" % number for number in range(2 * COUNT)]
    with Cluster(tmp_path / "cluster") as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        wanted = NewTopic("orders", 1, 1, config={"retention.ms": "-1"})
        admin.create_topics([wanted])["orders"].result(20)
        produce(bootstrap, range(COUNT))
        cluster.stop()
        properties = tmp_path / "cluster" / "node-100" / "node.properties"
        with apache_kafka(properties, tmp_path / "kafka.log"):
            produce(bootstrap, range(COUNT, 2 * COUNT))
            assert read_all(bootstrap) == everything
            resource = ConfigResource(ResourceType.TOPIC, "orders")
            described = admin.describe_configs([resource])[resource].result(20)
            assert described["retention.ms"].value == "-1"
        cluster.start()
        assert read_all(bootstrap) == everything


def read_committed(bootstrap: str) -> list[bytes | None]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "isolation.level": "read_committed",
        }
    )
    consumer.assign([TopicPartition("orders", 0, 0)])
    values = []
    while (message := consumer.poll(30)) is not None and message.error() is None:
        values.append(message.value())
    assert message is not None
    consumer.close()
    return values


def transactional(bootstrap: str, name: str) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": name,
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    producer.init_transactions(60)
    return producer


def test_a_transaction_begun_here_ends_in_apache_kafka_and_one_begun_there_ends_here(
    tmp_path: Path,
) -> None:
    settings = {
        "transaction.state.log.num.partitions": "2",
        "offsets.topic.num.partitions": "2",
    }
    with Cluster(tmp_path / "cluster", settings=settings) as cluster:
        bootstrap = cluster.bootstrap
        admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
        admin.create_topics([NewTopic("orders", 1, 1)])["orders"].result(20)
        ours = transactional(bootstrap, "ours")
        ours.begin_transaction()
        ours.produce("orders", b"begun here")
        ours.flush(30)
        cluster.stop()
        properties = tmp_path / "cluster" / "node-100" / "node.properties"
        with apache_kafka(properties, tmp_path / "kafka.log"):
            ours.produce("orders", b"ended there")
            ours.commit_transaction(60)
            # Apache Kafka answers once the end is decided; its marker may come a moment later.
            until(lambda: read_committed(bootstrap) == [b"begun here", b"ended there"], within_s=30)
            other = transactional(bootstrap, "theirs")
            other.begin_transaction()
            other.produce("orders", b"begun there")
            other.flush(30)
        cluster.start()
        other.produce("orders", b"ended here")
        other.commit_transaction(60)
        expected = [b"begun here", b"ended there", b"begun there", b"ended here"]
        until(lambda: read_committed(bootstrap) == expected, within_s=30)
