"""Three real processes, each broker and controller: any of them may be lost, and any takes over."""

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
DUMP = "org.apache.kafka.tools.DumpLogSegments"
METADATA_LOG = "__cluster_metadata-0/00000000000000000000.log"
NODES = {100, 101, 102}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster"), brokers=3) as running:
        yield running


def active(cluster: Cluster) -> int:
    """The active controller, once there is one."""
    found = cluster.local.active_controller()
    while found is None:
        until(lambda: cluster.local.active_controller() is not None)
        found = cluster.local.active_controller()
    return found


def successor(cluster: Cluster, before: int, within_s: float) -> int:
    until(lambda: cluster.local.active_controller() in NODES - {before}, within_s)
    return active(cluster)


def address(cluster: Cluster, node_id: int) -> str:
    listener = cluster.local.descriptions[node_id].listener
    assert listener is not None
    return listener


def create_topic(cluster: Cluster, name: str, through: int) -> None:
    admin = AdminClient({"bootstrap.servers": address(cluster, through), "log_level": 0})
    admin.create_topics([NewTopic(name, 3, 2)])[name].result(20)
    until(lambda: name in metadata(admin).topics)


def events(cluster: Cluster, kind: str, node_id: int) -> list[dict[str, Any]]:
    lines = (cluster.data(node_id) / "events.jsonl").read_text(encoding="utf-8").splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == kind]


def test_kafka_metadata_quorum_shows_one_leader_and_two_followers_through_any_broker(
    java: Java, cluster: Cluster
) -> None:
    leader = active(cluster)
    for node_id in NODES:
        where = address(cluster, node_id)
        said = java(QUORUM, "--bootstrap-server", where, "describe", "--replication")
        rows = [line.split() for line in said.splitlines()[1:]]
        assert {(int(row[0]), row[-1]) for row in rows} == {
            (each, "Leader" if each == leader else "Follower") for each in NODES
        }


def test_kafka_metadata_quorum_shows_the_voters_with_their_endpoints(
    java: Java, cluster: Cluster
) -> None:
    controllers = [
        listener
        for node in cluster.local.descriptions.values()
        if (listener := node.controller_listener) is not None
    ]
    said = java(QUORUM, "--bootstrap-server", cluster.bootstrap, "describe", "--status")
    assert f"LeaderId:               {active(cluster)}" in said
    for listener in controllers:
        assert f"CONTROLLER://{listener}" in said
    at_controllers = java(
        QUORUM, "--bootstrap-controller", ",".join(controllers), "describe", "--status"
    )
    assert f"LeaderId:               {active(cluster)}" in at_controllers


def test_a_killed_active_controller_is_replaced_within_a_second(cluster: Cluster) -> None:
    before = active(cluster)
    cluster.kill(before)
    after = successor(cluster, before, within_s=2.0)
    until(lambda: bool(events(cluster, "BrokerFenced", after)), within_s=5)
    assert events(cluster, "BrokerFenced", after)[-1]["broker_id"] == before
    create_topic(cluster, "after-the-kill", through=after)
    cluster.start(before)
    assert active(cluster) == after, "who comes back follows"


def test_a_paused_active_controller_is_replaced_and_follows_when_it_wakes_up(
    cluster: Cluster,
) -> None:
    before = active(cluster)
    cluster.pause(before)
    after = successor(cluster, before, within_s=15)
    create_topic(cluster, "during-the-pause", through=after)
    cluster.resume(before)
    until(lambda: bool(events(cluster, "ControllerDeactivated", before)))
    assert active(cluster) == after
    create_topic(cluster, "after-the-pause", through=before)


def test_an_active_controller_that_stops_hands_over(cluster: Cluster) -> None:
    before = active(cluster)
    cluster.stop(before)
    assert events(cluster, "NodeStopped", before)[-1]["clean"]
    after = successor(cluster, before, within_s=2.0)
    assert events(cluster, "ControllerActivated", after)[-1]["epoch"] > 1
    cluster.start(before)


def test_nobody_decides_without_a_majority_and_all_goes_on_with_one(cluster: Cluster) -> None:
    leader = active(cluster)
    others = sorted(NODES - {leader})
    for other in others:
        cluster.kill(other)
    until(lambda: bool(events(cluster, "ControllerDeactivated", leader)), within_s=10)
    for other in others:
        cluster.local.node(other).start()
    until(lambda: cluster.local.active_controller() is not None, within_s=15)
    until(lambda: unfenced(cluster) == NODES, within_s=30)
    create_topic(cluster, "with-a-majority", through=others[0])


def unfenced(cluster: Cluster) -> set[int]:
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    return set(metadata(admin).brokers)


def test_a_cluster_that_was_killed_as_a_whole_comes_back_with_all_it_knew(cluster: Cluster) -> None:
    create_topic(cluster, "before-the-end", through=100)
    for node_id in NODES:
        cluster.kill(node_id)
    cluster.local.start()
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap, "log_level": 0})
    assert "before-the-end" in metadata(admin).topics
    create_topic(cluster, "after-the-end", through=102)


def test_the_metadata_logs_are_equal_and_readable_for_apache_kafka(
    java: Java, cluster: Cluster
) -> None:
    create_topic(cluster, "dumped", through=101)
    leader = active(cluster)
    written = (cluster.data(leader) / METADATA_LOG).read_bytes()
    copies = [cluster.data(node_id) / METADATA_LOG for node_id in NODES]
    until(lambda: all(copy.stat().st_size >= len(written) for copy in copies))
    assert all(copy.read_bytes()[: len(written)] == written for copy in copies)
    path = cluster.data(leader) / METADATA_LOG
    said = java(DUMP, "--cluster-metadata-decoder", "--files", str(path))
    assert said.count("REGISTER_CONTROLLER_RECORD") >= len(NODES)
    assert "LeaderChange" in said
    assert "dumped" in said


def test_separate_controllers_serve_brokers_that_keep_no_quorum(tmp_path: Path, java: Java) -> None:
    with Cluster(tmp_path / "cluster", brokers=2, controllers=3) as separate:
        status = separate.local.status()
        assert [node["roles"] for node in status["nodes"]] == [["broker"]] * 2 + [
            ["controller"]
        ] * 3
        assert status["controller"] in (200, 201, 202)
        create_topic(separate, "orders", through=101)
        said = java(QUORUM, "--bootstrap-server", separate.bootstrap, "describe", "--replication")
        roles = sorted(line.split()[-1] for line in said.splitlines()[1:])
        assert roles == ["Follower", "Follower", "Leader", "Observer", "Observer"]
        before = status["controller"]
        separate.kill(before)
        until(lambda: separate.local.active_controller() in {200, 201, 202} - {before}, 5)
        create_topic(separate, "clicks", through=100)
