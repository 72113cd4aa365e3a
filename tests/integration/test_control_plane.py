"""Two real processes, one of them the controller: how they find, watch and leave each other."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.integration.metadata import metadata
from tests.integration.raw import until

from tidelog.testing.cluster import Cluster

Java = Callable[..., str]
QUORUM = "org.apache.kafka.tools.MetadataQuorumCommand"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=2) as running:
        yield running


def address(cluster: Cluster, node_id: int) -> str:
    listener = cluster.local.descriptions[node_id].listener
    assert listener is not None
    return listener


def events(cluster: Cluster, kind: str, node_id: int = 100) -> list[dict[str, Any]]:
    lines = (cluster.data(node_id) / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def of_101(cluster: Cluster, kind: str) -> list[dict[str, Any]]:
    return [event for event in events(cluster, kind) if event["broker_id"] == 101]


def test_a_topic_is_created_and_described_through_the_broker_without_a_controller(
    cluster: Cluster,
) -> None:
    admin = AdminClient({"bootstrap.servers": address(cluster, 101), "log_level": 0})
    admin.create_topics([NewTopic("orders", 4, 2)])["orders"].result(20)
    until(lambda: "orders" in metadata(admin).topics)
    topic = metadata(admin, "orders").topics["orders"]
    assert sorted(topic.partitions) == [0, 1, 2, 3]
    assert all(sorted(each.replicas) == [100, 101] for each in topic.partitions.values())
    assert {each.leader for each in topic.partitions.values()} == {100, 101}
    assert sorted(metadata(admin).brokers) == [100, 101]


def test_apache_kafkas_tools_see_the_quorum_through_any_broker(
    java: Java, cluster: Cluster
) -> None:
    for node_id in (100, 101):
        where = address(cluster, node_id)
        said = java(QUORUM, "--bootstrap-server", where, "describe", "--replication")
        rows = [line.split() for line in said.splitlines()[1:]]
        assert {(row[0], row[-1]) for row in rows} == {("100", "Leader"), ("101", "Observer")}


def test_the_metadata_log_of_the_broker_is_that_of_the_controller(cluster: Cluster) -> None:
    name = Path("__cluster_metadata-0/00000000000000000000.log")
    ours = (cluster.data(101) / name).read_bytes()
    assert ours
    assert (cluster.data(100) / name).read_bytes().startswith(ours)


def test_a_broker_that_stops_hands_over_and_leaves_cleanly(cluster: Cluster) -> None:
    cluster.stop(101)
    assert of_101(cluster, "BrokerShuttingDown")
    assert of_101(cluster, "BrokerFenced")[-1]["cause"] == "it asked to stop"
    assert events(cluster, "NodeStopped", 101)[-1]["clean"]
    admin = AdminClient({"bootstrap.servers": address(cluster, 100), "log_level": 0})
    topic = metadata(admin, "orders").topics["orders"]
    assert {each.leader for each in topic.partitions.values()} == {100}
    cluster.start(101)


def test_a_killed_broker_is_fenced_soon_and_unfenced_when_it_is_back(cluster: Cluster) -> None:
    fenced = len(of_101(cluster, "BrokerFenced"))
    cluster.kill(101)
    until(lambda: len(of_101(cluster, "BrokerFenced")) > fenced, within_s=5)
    assert "did not come back within 200 ms" in of_101(cluster, "BrokerFenced")[-1]["cause"]
    unfenced = len(of_101(cluster, "BrokerUnfenced"))
    cluster.start(101)
    assert len(of_101(cluster, "BrokerUnfenced")) > unfenced


def test_a_broker_outlives_its_controller_and_finds_it_again(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": address(cluster, 101), "log_level": 0})
    cluster.kill(100)
    assert metadata(admin).topics, "it answers from its own image"
    fenced = len(of_101(cluster, "BrokerFenced"))
    cluster.start(100)
    admin.create_topics([NewTopic("clicks", 1, 2)])["clicks"].result(30)
    until(lambda: "clicks" in metadata(admin).topics)
    assert len(of_101(cluster, "BrokerFenced")) == fenced


def test_kafka_topics_describes_what_both_nodes_know(java: Java, cluster: Cluster) -> None:
    def described(node_id: int) -> str:
        return java(TOPICS, "--bootstrap-server", address(cluster, node_id), "--describe")

    until(lambda: described(100) == described(101), within_s=30)  # followers may be joining
    assert "Topic: orders" in described(100)
