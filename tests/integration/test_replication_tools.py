"""Apache Kafka's own client and tools on a replicated topic."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.conftest import JAVA
from tests.integration.metadata import metadata
from tests.integration.raw import until

from tidelog.local.node_setup import change_settings
from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
Config = Mapping[str, Any]
REASSIGN = "org.apache.kafka.tools.reassign.ReassignPartitionsCommand"
ELECTION = "org.apache.kafka.tools.LeaderElectionCommand"
VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
RACKS = {100: "north", 101: "south", 102: "south"}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = {
        "auto.leader.rebalance.enable": "false",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "log.segment.delete.delay.ms": "1000",
    }
    where = tmp_path_factory.mktemp("cluster")
    with Cluster(where, brokers=3, settings=settings) as running:
        for node_id, rack in RACKS.items():
            running.stop(node_id)
            described = running.local.descriptions[node_id]
            change_settings(running.directory, described, {"broker.rack": rack}, development=False)
            running.start(node_id)
        yield running


@pytest.fixture
def admin(cluster: Cluster) -> AdminClient:
    return AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})


def create(admin: AdminClient, topic: str, assignment: list[list[int]], **config: str) -> None:
    new = NewTopic(topic, len(assignment), replica_assignment=assignment, config=config)
    admin.create_topics([new])[topic].result(20)
    until(lambda: topic in metadata(admin).topics)


def leader_of(admin: AdminClient, topic: str, index: int = 0) -> int:
    return int(metadata(admin, topic).topics[topic].partitions[index].leader)


def replicas_of(admin: AdminClient, topic: str, index: int = 0) -> tuple[list[int], list[int]]:
    found = metadata(admin, topic).topics[topic].partitions[index]
    return list(found.replicas), sorted(found.isrs)


def values_in(cluster: Cluster, topic: str, config: Config | None = None) -> list[bytes]:
    """Every record of the first partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "none",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "log_level": 0,
            **(config or {}),
        }
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[bytes] = []
    while True:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is not None:
            assert message.error().code() == KafkaError._PARTITION_EOF
            break
        found.append(message.value() or b"")
    consumer.close()
    return found


def fill(cluster: Cluster, topic: str, count: int = 500) -> list[bytes]:
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "enable.idempotence": True, "log_level": 0}
    )
    values = [b"%d" % number for number in range(count)]
    for value in values:
        producer.produce(topic, value, partition=0)
    assert producer.flush(30) == 0
    return values


def test_the_java_producer_goes_through_the_death_of_a_leader_without_loss_or_duplicate(
    cluster: Cluster, admin: AdminClient, tmp_path: Path
) -> None:
    as_applications_have_it = tmp_path / "producer.properties"
    as_applications_have_it.write_text("retries=2147483647\nenable.idempotence=true\n")
    create(admin, "from-java", [[101, 102, 100]], **{"min.insync.replicas": "2"})
    command = [
        "java", "-Xmx256m", "-cp", f"{JAVA / 'tools'}/*", VERIFIABLE_PRODUCER,
        "--bootstrap-server", cluster.bootstrap, "--topic", "from-java", "--acks", "-1",
        "--max-messages", "4000", "--throughput", "1000",
        "--command-config", str(as_applications_have_it),
    ]  # fmt: skip
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=os.environ
    ) as java:
        assert java.stdout is not None
        sent: list[str] = []
        for line in java.stdout:
            said = json.loads(line)
            assert said["name"] != "producer_send_error", said
            if said["name"] == "producer_send_success":
                sent.append(said["value"])
            if len(sent) == 1000:
                cluster.kill(101)
        assert java.wait(60) == 0
    cluster.start(101)
    assert sorted(map(int, sent)) == list(range(4000))
    found = values_in(cluster, "from-java")
    assert sorted(map(int, found)) == list(range(4000))
    until(lambda: replicas_of(admin, "from-java")[1] == [100, 101, 102], within_s=30)


def test_kafka_reassign_partitions_moves_a_replica_with_all_it_holds(
    cluster: Cluster, admin: AdminClient, java: Java, tmp_path: Path
) -> None:
    create(admin, "moving", [[100, 101]])
    values = fill(cluster, "moving")
    plan = tmp_path / "plan.json"
    moved = {"topic": "moving", "partition": 0, "replicas": [102, 101]}
    plan.write_text(json.dumps({"version": 1, "partitions": [moved]}))
    where = ("--bootstrap-server", cluster.bootstrap, "--reassignment-json-file", str(plan))

    throttle = ("--throttle", "50000000", "--replica-alter-log-dirs-throttle", "50000000")
    started = java(REASSIGN, *where, "--execute", *throttle)
    assert "Successfully started" in started and "The inter-broker throttle limit" in started
    until(lambda: replicas_of(admin, "moving") == ([102, 101], [101, 102]), within_s=30)
    verified = java(REASSIGN, *where, "--verify")

    assert "Reassignment of partition moving-0 is completed." in verified
    assert "Clearing broker-level throttles" in verified
    assert "Clearing topic-level throttles" in verified
    assert leader_of(admin, "moving") in (101, 102)
    assert values_in(cluster, "moving") == values
    until(lambda: not (cluster.data(100) / "moving-0").exists(), within_s=10)


def test_kafka_leader_election_brings_the_preferred_leader_back(
    cluster: Cluster, admin: AdminClient, java: Java
) -> None:
    create(admin, "preferred", [[102, 101, 100]])
    cluster.stop(102)
    until(lambda: leader_of(admin, "preferred") == 101)
    cluster.start(102)
    until(lambda: replicas_of(admin, "preferred")[1] == [100, 101, 102], within_s=30)
    assert leader_of(admin, "preferred") == 101

    said = java(
        ELECTION, "--bootstrap-server", cluster.bootstrap, "--election-type", "preferred",
        "--topic", "preferred", "--partition", "0",
    )  # fmt: skip

    assert "Successfully completed leader election (PREFERRED)" in said
    until(lambda: leader_of(admin, "preferred") == 102)


def test_a_consumer_reads_from_the_replica_in_its_rack(
    cluster: Cluster, admin: AdminClient
) -> None:
    create(admin, "near", [[100, 101]])
    values = fill(cluster, "near", 5000)
    read_from: list[int] = []

    def note(statistics: str) -> None:
        topics = json.loads(statistics)["topics"]
        if "near" in topics:
            read_from.append(topics["near"]["partitions"]["0"]["broker"])

    config = {
        "client.rack": "south",
        "statistics.interval.ms": 10,
        "stats_cb": note,
        "fetch.message.max.bytes": 1000,
    }
    assert values_in(cluster, "near", config) == values
    assert read_from[-1] == 101


def test_an_unclean_election_happens_where_the_topic_allows_it_and_says_what_it_may_lose(
    cluster: Cluster, admin: AdminClient, java: Java
) -> None:
    create(admin, "unclean", [[101, 102]], **{"min.insync.replicas": "1"})
    kept = fill(cluster, "unclean", 100)
    cluster.kill(102)
    until(lambda: replicas_of(admin, "unclean")[1] == [101], within_s=30)
    fill(cluster, "unclean", 50)
    cluster.kill(101)
    cluster.start(102)  # without it there is no majority of controllers to take the leader away
    until(lambda: leader_of(admin, "unclean") == -1, within_s=30)

    said = java(
        ELECTION, "--bootstrap-server", cluster.bootstrap, "--election-type", "unclean",
        "--topic", "unclean", "--partition", "0",
    )  # fmt: skip

    assert "Successfully completed leader election (UNCLEAN)" in said
    until(lambda: leader_of(admin, "unclean") == 102)
    assert values_in(cluster, "unclean") == kept
    told = [
        json.loads(line)
        for node_id in cluster.node_ids
        for line in (cluster.data(node_id) / "events.jsonl").read_text("utf-8").splitlines()
    ]
    unclean = [event for event in told if event.get("unclean")]
    assert [event["unclean_elections"] for event in unclean] == [1]
    assert unclean[0]["may_lose"]
    cluster.start(101)
    until(lambda: replicas_of(admin, "unclean")[1] == [101, 102], within_s=30)
    assert values_in(cluster, "unclean") == kept
