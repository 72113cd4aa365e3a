"""Consume, transform, produce while brokers are killed: every input once in the output."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Consumer, IsolationLevel, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec
from tests.integration.raw import until

from tidelog.testing.cluster import Cluster

HERE = Path(__file__).parent
JAVA_PROGRAM = HERE.parent / "java" / "Transformer.java"
JARS = HERE.parents[1] / ".cache" / "java" / "tools"
GO_PROGRAM = HERE.parents[1] / ".cache" / "clients" / "everyday-go"
JAVASCRIPT_PROGRAM = HERE.parents[1] / ".cache" / "clients" / "js" / "transform.mjs"
COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
TRANSACTIONAL_WORK = HERE.parent / "java" / "TransactionalWork.java"
PARTITIONS = 3
PATIENCE_S = 120.0
QUICK = {
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "3000",
    "leader.imbalance.check.interval.seconds": "2",
    "broker.reconnect.grace.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
    "transaction.state.log.num.partitions": "6",
    "offsets.topic.num.partitions": "6",
}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    """Three brokers and two topics, of which every partition has three replicas."""
    with Cluster(tmp_path / "cluster", brokers=3, settings=QUICK) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap, "log_level": 0})
        config = {"min.insync.replicas": "2"}
        topics = [NewTopic(name, PARTITIONS, 3, config=config) for name in ("input", "output")]
        for created in admin.create_topics(topics).values():
            created.result(20)
        yield running


@contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def transformer(bootstrap: str, name: str) -> list[str]:
    program = str(HERE / "transformer.py")
    return [sys.executable, program, bootstrap, "input", "output", name]


def aiokafka_transformer(bootstrap: str, name: str) -> list[str]:
    program = str(HERE / "aiokafka_transformer.py")
    return [sys.executable, program, bootstrap, "input", "output", name]


def kafka_python_transformer(bootstrap: str, name: str) -> list[str]:
    program = str(HERE / "kafka_python_transformer.py")
    return [sys.executable, program, bootstrap, "input", "output", name]


def java_transformer(bootstrap: str, name: str) -> list[str]:
    program = str(JAVA_PROGRAM)
    jvm = ["java", "-Xmx256m", "-cp", f"{JARS}/*", program]
    return [*jvm, bootstrap, "input", "output", name]


def go_transformer(bootstrap: str, name: str) -> list[str]:
    return [str(GO_PROGRAM), "transform", bootstrap.split(",")[0], "input", "output", name]


def javascript_transformer(bootstrap: str, name: str) -> list[str]:
    return ["node", str(JAVASCRIPT_PROGRAM), bootstrap, "input", "output", name]


def kafkas_copier(bootstrap: str, name: str) -> list[str]:
    """The one that Apache Kafka tests itself with; now and then it aborts on purpose."""
    jvm = ["java", "-Xmx256m", "-cp", f"{JARS}/*", COPIER]
    topics = ["--input-topic", "input", "--input-partition", "0", "--output-topic", "output"]
    who = ["--transactional-id", name, "--consumer-group", "copiers", "--group-mode"]
    how = ["--use-group-metadata", "--enable-random-aborts", "--transaction-size", "40"]
    patience = ["--transaction-timeout", "10000"]
    return [*jvm, "--broker-list", bootstrap, *topics, *who, *how, *patience]


class Output:
    """What is committed, as far as it has been read."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._seen: Counter[bytes] = Counter()
        self._consumer = self._read_from_the_start()

    def read_until(self, count: int, timeout_s: float = PATIENCE_S) -> None:
        """Read until so many different records were seen."""
        deadline = time.monotonic() + timeout_s
        while len(self._seen) < count:
            assert time.monotonic() < deadline, f"{len(self._seen)} of {count} records"
            read = self._consumer.consume(500, 0.5)
            self._seen.update(message.value() for message in read if message.error() is None)

    def all_of_it(self) -> Counter[bytes]:
        """Nobody writes any more: how often each record is there once no transaction is open."""
        self._consumer.close()
        admin = AdminClient({"bootstrap.servers": self._bootstrap, "log_level": 0})
        until(lambda: ends(admin, stable=True) == ends(admin, stable=False), PATIENCE_S)
        found: Counter[bytes] = Counter()
        consumer = self._read_from_the_start()
        read_to_the_end = 0
        while read_to_the_end < PARTITIONS:
            for message in consumer.consume(500, 0.5):
                if message.error() is None:
                    found[message.value()] += 1
                elif message.error().code() == KafkaError._PARTITION_EOF:
                    read_to_the_end += 1
        consumer.close()
        return found

    def _read_from_the_start(self) -> Consumer:
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap,
                "group.id": "checker",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition("output", at, 0) for at in range(PARTITIONS)])
        return consumer


def ends(admin: AdminClient, *, stable: bool) -> list[int]:
    """Where the partitions of the output end, for readers of committed records or for all."""
    level = IsolationLevel.READ_COMMITTED if stable else IsolationLevel.READ_UNCOMMITTED
    wanted = {TopicPartition("output", at): OffsetSpec.latest() for at in range(PARTITIONS)}
    found = admin.list_offsets(wanted, isolation_level=level, request_timeout=20)
    return [found[each].result().offset for each in wanted]


def fill(bootstrap: str, count: int) -> list[bytes]:
    producer = Producer({"bootstrap.servers": bootstrap, "log_level": 0})
    values = [b"%d" % number for number in range(count)]
    for number, value in enumerate(values):
        producer.produce("input", value, partition=number % PARTITIONS)
    assert producer.flush(60) == 0
    return values


@pytest.mark.parametrize("make_command", [transformer, java_transformer])
def test_every_input_is_once_in_the_output_although_brokers_are_killed(
    cluster: Cluster, tmp_path: Path, make_command: Callable[[str, str], list[str]]
) -> None:
    values = fill(cluster.bootstrap, 4200)
    output = Output(cluster.bootstrap)
    first = make_command(cluster.bootstrap, "transformer-1")
    second = make_command(cluster.bootstrap, "transformer-2")
    with (
        running(first, tmp_path / "first.log") as survivor,
        running(second, tmp_path / "second.log") as victim,
    ):
        output.read_until(300)
        for step, node_id in enumerate((101, 102, 100), start=1):
            cluster.kill(node_id)
            if node_id != 100:  # the only controller; without it nobody takes over
                output.read_until(300 + 700 * step)
            cluster.start(node_id)
            output.read_until(600 + 700 * step)
        assert victim.poll() is None, "it goes on until it is killed"
        victim.kill()
        victim.wait()
        with running(second, tmp_path / "second-again.log") as again:
            output.read_until(len(values))
            assert (survivor.poll(), again.poll()) == (None, None)
    assert output.all_of_it() == Counter(values)


@pytest.mark.parametrize(
    "make_command",
    [
        kafkas_copier,
        go_transformer,
        aiokafka_transformer,
        kafka_python_transformer,
        javascript_transformer,
    ],
)
def test_every_input_is_once_in_the_output_although_brokers_die_in_turn(
    cluster: Cluster, tmp_path: Path, make_command: Callable[[str, str], list[str]]
) -> None:
    values = fill(cluster.bootstrap, 3000)
    output = Output(cluster.bootstrap)
    with (
        running(make_command(cluster.bootstrap, "copier-1"), tmp_path / "first.log") as first,
        running(make_command(cluster.bootstrap, "copier-2"), tmp_path / "second.log") as second,
    ):
        output.read_until(200)
        cluster.kill(101)
        output.read_until(1000)
        cluster.start(101)
        cluster.kill(102)
        output.read_until(1800)
        cluster.start(102)
        output.read_until(len(values))
        assert {first.poll(), second.poll()} <= {None, 0}, "Kafka's copier ends by itself"
    assert output.all_of_it() == Counter(values)


def test_the_java_client_goes_from_transaction_to_transaction_without_a_pause(
    cluster: Cluster, java: Callable[..., str]
) -> None:
    said = java(str(TRANSACTIONAL_WORK), cluster.bootstrap, "three-brokers")
    assert said.splitlines()[-1] == "all done"
