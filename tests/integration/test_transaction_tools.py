"""Apache Kafka's transactional tools, and ours, on our broker and on our files."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka import TopicPartition as KafkaPartition
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.raw import until

from tidelog.client.blocking import Client
from tidelog.client.transactional_producer import TransactionalProducer
from tidelog.client.transactions import Transactions
from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
DUMP = "org.apache.kafka.tools.DumpLogSegments"
TRANSACTIONS = "org.apache.kafka.tools.TransactionsCommand"
COMPLAINTS = ("mismatch", "Misordered", "not found", "isvalid: false", "Could not read", "corrupt")
KAFKA_PYTHON = Path(__file__).with_name("kafka_python_transactions.py")
PROGRAM = Path(__file__).parents[1] / "java" / "TransactionalWork.java"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One broker with few coordinators, which cleans often and lets two phases be used."""
    settings = {
        "transaction.state.log.num.partitions": "1",
        "offsets.topic.num.partitions": "1",
        "log.cleaner.backoff.ms": "200",
        "transaction.two.phase.commit.enable": "true",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "500",
    }
    with Cluster(tmp_path_factory.mktemp("cluster"), settings=settings) as running:
        yield running


def create(bootstrap: str, name: str, **config: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    wanted = {key.replace("_", "."): value for key, value in config.items()}
    admin.create_topics([NewTopic(name, 1, 1, config=wanted)])[name].result(20)


def producer_of(bootstrap: str, transactional_id: str, **more: object) -> Producer:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": transactional_id,
            "log_level": 0,
            **{key.replace("_", "."): value for key, value in more.items()},
        }
    )
    producer.init_transactions(20)
    return producer


def committed(bootstrap: str, topic: str) -> list[bytes]:
    """What a reader of committed records sees, to the last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    values: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            consumer.close()
            return values
        values.append(message.value())


def tidelog(*arguments: str) -> str:
    command = [sys.executable, "-m", "tidelog", *arguments]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_kafka_transactions_lists_describes_and_aborts(
    java: Java, cluster: Cluster, topic: str
) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    create(cluster.bootstrap, topic)
    producer = producer_of(cluster.bootstrap, "hangs")
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush()

    listed = java(TRANSACTIONS, *server, "list")
    assert any("hangs" in line and "Ongoing" in line for line in listed.splitlines())
    described = java(TRANSACTIONS, *server, "describe", "--transactional-id", "hangs")
    assert f"{topic}-0" in described and "Ongoing" in described
    producers = java(
        TRANSACTIONS, *server, "describe-producers", "--topic", topic, "--partition", "0"
    )
    assert len(producers.splitlines()) == 2
    terminate = (TRANSACTIONS, *server, "forceTerminateTransaction")
    java(*terminate, "--transactionalId", "hangs")

    with pytest.raises(KafkaException):
        producer.commit_transaction(20)
    assert committed(cluster.bootstrap, topic) == []


def test_kafka_transactions_aborts_what_hangs_in_a_partition(
    java: Java, cluster: Cluster, topic: str
) -> None:
    server = ("--bootstrap-server", cluster.bootstrap)
    create(cluster.bootstrap, topic)
    producer = producer_of(cluster.bootstrap, "hangs in a partition")
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush()

    hanging = java(TRANSACTIONS, *server, "find-hanging", "--broker-id", "100")
    assert len(hanging.splitlines()) <= 1, "the coordinator knows of it"
    java(
        TRANSACTIONS, *server, "abort", "--topic", topic, "--partition", "0", "--start-offset", "0"
    )

    assert committed(cluster.bootstrap, topic) == []
    other = producer_of(cluster.bootstrap, "does not wait")
    other.begin_transaction()
    other.produce(topic, b"visible")
    other.commit_transaction(20)
    until(lambda: committed(cluster.bootstrap, topic) == [b"visible"], within_s=20)


def test_a_transaction_past_its_timeout_does_not_hold_up_readers(
    cluster: Cluster, topic: str
) -> None:
    create(cluster.bootstrap, topic)
    slow = producer_of(cluster.bootstrap, "too slow", transaction_timeout_ms=1000)
    slow.begin_transaction()
    slow.produce(topic, b"undecided")
    slow.flush()
    quick = producer_of(cluster.bootstrap, "quick")
    quick.begin_transaction()
    quick.produce(topic, b"decided")
    quick.commit_transaction(20)

    until(lambda: committed(cluster.bootstrap, topic) == [b"decided"], within_s=20)
    with pytest.raises(KafkaException):
        slow.commit_transaction(20)


def test_our_command_lists_describes_and_aborts(cluster: Cluster, topic: str) -> None:
    create(cluster.bootstrap, topic)
    producer = producer_of(cluster.bootstrap, "ours")
    producer.begin_transaction()
    producer.produce(topic, b"undecided")
    producer.flush()
    where = ("--bootstrap", cluster.bootstrap)

    listed = [
        json.loads(line) for line in tidelog("transactions", "list", *where, "--json").splitlines()
    ]
    (ours,) = [each for each in listed if each["transactional_id"] == "ours"]
    assert ours["state"] == "Ongoing"
    described = json.loads(tidelog("transactions", "describe", "ours", *where, "--json"))
    assert described["partitions"] == [f"{topic}-0"]
    tidelog("transactions", "abort", "ours", *where)

    described = json.loads(tidelog("transactions", "describe", "ours", *where, "--json"))
    assert (described["state"], described["producer_epoch"]) == ("Empty", 2)
    assert "ours" not in tidelog("transactions", "list", *where, "--state", "Ongoing")
    assert committed(cluster.bootstrap, topic) == []


def test_a_prepared_transaction_survives_its_process_and_a_restart_of_the_broker(
    cluster: Cluster, topic: str
) -> None:
    create(cluster.bootstrap, topic)
    with Client(cluster.bootstrap) as client:
        transactions = Transactions(client)
        transactions.initialise("sink", two_phase=True)
    producer = producer_of(cluster.bootstrap, "sink")
    producer.begin_transaction()
    producer.produce(topic, b"prepared")
    producer.flush()
    cluster.kill(100)
    cluster.start(100)
    with Client(cluster.bootstrap) as client:
        transactions = Transactions(client)
        taken = transactions.initialise("sink", two_phase=True, keep_prepared=True)
        assert taken.ongoing is not None
        assert transactions.describe("sink").never_times_out
        transactions.end("sink", taken.producer, commit=True)
        until(lambda: transactions.describe("sink").state == "CompleteCommit", within_s=20)
    assert committed(cluster.bootstrap, topic) == [b"prepared"]


@pytest.mark.parametrize("jars", ["tools", "older-client", "newer-client"])
def test_the_java_client_works_in_transactions(java: Java, cluster: Cluster, jars: str) -> None:
    said = java(str(PROGRAM), cluster.bootstrap, jars, jars=jars)
    assert said.splitlines()[-1] == "all done"


def test_aiokafka_works_in_transactions(cluster: Cluster, topic: str) -> None:
    create(cluster.bootstrap, topic)

    async def work() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, transactional_id="aiokafka"
        )
        await producer.start()
        async with producer.transaction():
            await producer.send_and_wait(topic, b"first")
            await producer.send_offsets_to_transaction(
                {KafkaPartition(topic, 0): 1}, "aiokafka-group"
            )
        with pytest.raises(ValueError, match="no"):
            async with producer.transaction():
                await producer.send_and_wait(topic, b"aborted")
                raise ValueError("no")
        async with producer.transaction():
            await producer.send_and_wait(topic, b"second")
        await producer.stop()

    asyncio.run(work())
    assert committed(cluster.bootstrap, topic) == [b"first", b"second"]


def test_kafka_python_works_in_transactions(cluster: Cluster, topic: str) -> None:
    create(cluster.bootstrap, topic)
    command = [sys.executable, str(KAFKA_PYTHON), cluster.bootstrap, topic]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stderr
    assert committed(cluster.bootstrap, topic) == [b"first", b"second"]


def test_dump_log_segments_decodes_our_transaction_log_and_reads_a_compacted_one(
    java: Java, cluster: Cluster, topic: str
) -> None:
    create(
        cluster.bootstrap,
        topic,
        cleanup_policy="compact",
        segment_bytes="1048576",
        index_interval_bytes="1000",
        min_cleanable_dirty_ratio="0.01",
        delete_retention_ms="1",
    )
    producer = producer_of(cluster.bootstrap, "cleans", compression_type="zstd")
    for round_ in range(30):
        producer.begin_transaction()
        for key in range(200):
            value = None if key % 7 == 0 and round_ % 2 else b"%d %d " % (round_, key) * 40
            producer.produce(topic, value, key=b"%d" % key)
        if round_ % 3:
            producer.commit_transaction(20)
        else:
            producer.flush()
            producer.abort_transaction(20)
    plain = Producer({"bootstrap.servers": cluster.bootstrap, "compression.type": "none"})
    for number in range(3000):
        plain.produce(topic, b"x" * 1000, key=b"plain %d" % (number % 10))
    assert plain.flush(30) == 0
    directory = cluster.data(100) / f"{topic}-0"
    until(lambda: "cleaned up to offset" in cluster.log_text(100), within_s=20)
    size = sum(file.stat().st_size for file in directory.glob("*.log"))
    assert size < 3_000_000

    logs = sorted(map(str, directory.glob("*.log")))
    indexes = sorted(map(str, [*directory.glob("*.index"), *directory.glob("*.timeindex")]))
    dumped = java(DUMP, "--deep-iteration", "--files", ",".join(logs))
    verified = java(DUMP, "--verify-index-only", "--files", ",".join(indexes))
    others = sorted(map(str, [*directory.glob("*.txnindex"), *directory.glob("*.snapshot")]))
    states = java(DUMP, "--files", ",".join(others))
    assert "producerId" in states
    for said in (dumped, verified, states):
        assert not [word for word in COMPLAINTS if word in said]
    coordinator = cluster.data(100) / "__transaction_state-0" / f"{0:020d}.log"
    decoded = java(DUMP, "--transaction-log-decoder", "--files", str(coordinator))
    assert '"transactionalId":"cleans"' in decoded
    assert '"transactionStatus":4' in decoded


def test_our_own_producer_takes_part_in_a_two_phase_commit(cluster: Cluster, topic: str) -> None:
    create(cluster.bootstrap, topic)
    with Client(cluster.bootstrap) as client:
        first = TransactionalProducer(client, "sink-1", two_phase=True)
        first.send(topic, b"committed at once", key=b"k")
        first.commit()
        first.send(topic, b"aborted at once", key=b"k")
        first.prepare()
        first.abort()
        first.send(topic, b"noted", key=b"k")
        noted = first.prepare()
    with Client(cluster.bootstrap) as client:
        second = TransactionalProducer(client, "sink-1", two_phase=True)
        assert second.prepared == noted
        assert second.resolve(noted)
        second.send(topic, b"not noted", key=b"k")
        second.prepare()
    with Client(cluster.bootstrap) as client:
        third = TransactionalProducer(client, "sink-1", two_phase=True)
        assert not third.resolve(noted)
        third.send(topic, b"last", key=b"k")
        third.commit()
    last = [b"committed at once", b"noted", b"last"]
    until(lambda: committed(cluster.bootstrap, topic) == last, within_s=20)


@pytest.mark.parametrize("level", ["1", "0"])
def test_the_java_client_works_in_a_cluster_of_an_older_transaction_version(
    java: Java, cluster: Cluster, level: str
) -> None:
    features = ("org.apache.kafka.tools.FeatureCommand", "--bootstrap-server", cluster.bootstrap)
    java(*features, "downgrade", "--feature", f"transaction.version={level}")
    try:
        said = java(str(PROGRAM), cluster.bootstrap, f"version-{level}")
        assert said.splitlines()[-1] == "all done"
    finally:
        java(*features, "upgrade", "--feature", "transaction.version=2")
