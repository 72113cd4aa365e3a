"""The view names the problems that `tidelog cluster health` names, as soon as streams tell them."""

from __future__ import annotations

import time
from typing import Any

import pytest
from tests.monitor.test_problems import NOW_MS, WELL, node, quorum
from tests.view.test_cluster_picture import NODES, cluster, healthy, metadata, told

from tidelog.model.ids import TopicPartition
from tidelog.monitor.metrics_text import read_metrics
from tidelog.monitor.problems import Problem, Severity, problems
from tidelog.monitor.snapshot import BrokerTold, ProcessSeen
from tidelog.node.inspection.metrics import UNCLEAN_ELECTION
from tidelog.observe.metrics import Metric, exposition
from tidelog.view.cluster_health import ClusterHealth
from tidelog.view.cluster_picture import ClusterPicture
from tidelog.view.cluster_snapshot import ClusterLook, snapshot_of


def turns(picture: ClusterPicture) -> dict[str, int]:
    return {address: node.turns for address, node in picture.nodes.items()}


def found(
    picture: ClusterPicture,
    look: ClusterLook = ClusterLook(),  # noqa: B008
    began: dict[str, int] | None = None,
) -> list[Problem]:
    picture.take_changes()
    return problems(snapshot_of(picture, look, began or turns(picture), NOW_MS))


def with_nodes(**fields: Any) -> ClusterLook:
    """A look at which node 101 tells something special."""
    nodes = {str(each): node(each, **(fields if each == 101 else {})) for each in NODES}
    return ClusterLook(nodes, WELL)


def test_a_healthy_cluster_has_no_problems() -> None:
    assert found(healthy()) == []
    assert found(healthy(), with_nodes()) == []


def test_a_partition_without_a_leader_comes_before_one_that_lacks_replicas() -> None:
    picture = healthy()
    other = metadata(101, (101, 100), topic="payments")
    picture.hear("100", "metadata", told(metadata(-1, ()), other, snapshot=False))

    worst, less = found(picture)

    assert (worst.severity, worst.kind) == (Severity.CRITICAL, "offline-partitions")
    assert "orders-0 has no leader that answers" in worst.what
    assert (less.kind, less.partitions) == ("under-replicated", (TopicPartition("payments", 0),))


def test_fewer_in_sync_replicas_than_the_minimum_refuse_writes() -> None:
    picture = healthy()
    picture.hear("100", "metadata", told(metadata(100, (100,)), snapshot=False))

    assert [each.kind for each in found(picture)] == ["under-min-isr"]


def test_a_replica_on_its_way_is_not_missed() -> None:
    picture = healthy()
    picture.hear("100", "metadata", told(metadata(100, (100, 101)), snapshot=False))
    moving = WELL._replace(adding={TopicPartition("orders", 0): (102,)})

    assert found(picture, ClusterLook(cluster=moving)) == []


def test_a_killed_node_is_named_with_its_reason_and_the_way_back() -> None:
    picture = healthy()
    picture.lost("101", "nobody listens there")
    picture.process_is("101", ProcessSeen("stopped", "killed: SIGKILL"))

    (problem,) = found(picture)

    assert problem.what == "node 101: its process does not run (killed: SIGKILL)"
    assert problem.remedy == "`tidelog node start 101`"


def test_a_paused_node_still_has_its_connection_and_is_a_problem_all_the_same() -> None:
    picture = healthy()
    picture.process_is("102", ProcessSeen("paused"))

    assert [each.what for each in found(picture)] == ["node 102: its process is paused"]


@pytest.mark.parametrize(("leader", "role"), [(-1, "candidate"), (101, "follower")])
def test_too_few_controllers_are_the_worst_problem_whoever_is_still_named_as_leader(
    leader: int, role: str
) -> None:
    picture = healthy()
    voters = [{"id": each, "log_end_offset": None, "lag": None} for each in NODES]
    alone = cluster(leader, role)
    picture.hear("100", "cluster", {**alone, "quorum": {**alone["quorum"], "voters": voters}})
    for gone in (101, 102):
        picture.lost(str(gone), "nobody listens there")

    kinds = {each.kind: each.what for each in found(picture)}

    said = "nothing can be decided: 1 of 3 controllers answer, and 2 are needed"
    assert next(iter(kinds.values())) == said
    assert "controllers-missing" not in kinds


def test_where_controllers_are_not_looked_at_a_broker_tells_that_none_decides() -> None:
    picture = healthy()
    voters = [{"id": each, "log_end_offset": None, "lag": None} for each in (1, 2, 3)]
    for each in NODES:
        said = cluster(1, "follower")
        picture.hear(str(each), "cluster", {**said, "quorum": {**said["quorum"], "voters": voters}})
    assert found(picture) == []

    alone = WELL._replace(quorum=None, no_controller="1 of 3 controllers can be reached")

    assert [each.kind for each in found(picture, ClusterLook(cluster=alone))] == ["no-controller"]


def test_a_cluster_of_which_no_node_answers_is_told_when_all_were_asked() -> None:
    picture = healthy()
    for gone in NODES:
        picture.lost(str(gone), "nobody listens there")

    assert found(picture)[0].what == "nothing can be decided: no node answers"


def test_a_fenced_broker_and_a_directory_that_is_offline_are_told_by_the_streams() -> None:
    picture = healthy()
    broken = {"path": "/data", "offline": "EIO"}
    for each in NODES:
        said = cluster(role="leader" if each == 100 else "follower", fenced=(102,))
        picture.hear(str(each), "cluster", {**said, "directories": [broken] * (each == 101)})

    assert [(each.kind, each.node) for each in found(picture)] == [
        ("directory-offline", 101),
        ("fenced-broker", 102),
    ]


def test_what_only_a_look_tells_is_named_beside_it() -> None:
    values = [(("orders", "0", "7", "records from 3 on"), NOW_MS / 1000 - 60)]
    metrics = read_metrics(exposition([Metric(UNCLEAN_ELECTION, values)]))
    nodes = with_nodes(metrics=metrics, clock_ahead_ms=9000).nodes
    looked_at = WELL._replace(
        told={100: BrokerTold(usable_bytes=1_000_000)}, quorum=quorum(102)._replace(epoch=3)
    )

    kinds = [each.kind for each in found(healthy(), ClusterLook(nodes, looked_at))]

    assert kinds == ["unclean-election", "controllers-missing", "disk-nearly-full", "clock-off"]


def test_what_was_learnt_of_a_node_before_it_came_back_counts_no_longer() -> None:
    picture = healthy()
    look = ClusterLook(cluster=WELL._replace(told={101: BrokerTold(silent="cannot reach it")}))
    began = turns(picture)
    assert [each.kind for each in found(picture, look, began)] == ["silent-broker"]

    picture.lost("101", "nobody listens there")
    picture.connected("101")

    assert found(picture, look, began) == []


def test_a_leader_that_does_not_answer_leaves_its_partitions_without_one_at_once() -> None:
    picture = healthy()
    health = ClusterHealth(picture)
    picture.process_is("100", ProcessSeen("stopped", "killed: SIGKILL"))
    time_to_search(health)
    picture.take_changes()
    time_to_search(health)

    assert [each["kind"] for each in health.problems] == ["offline-partitions", "node-down"]
    assert (health.problems[0]["partitions"], health.problems[0]["count"]) == (["orders-0"], 1)


def test_a_search_that_was_long_is_not_repeated_soon() -> None:
    picture = healthy()
    many = [metadata(100, (100, 101), partition=index) for index in range(20_000)]
    picture.hear("100", "metadata", told(*many, snapshot=False))
    picture.take_changes()
    health = ClusterHealth(picture)
    assert health.find_problems(changed=True)

    assert not health.find_problems(changed=True)
    assert (len(health.problems[0]["partitions"]), health.problems[0]["count"]) == (100, 20_000)
    time_to_search(health)


def time_to_search(health: ClusterHealth) -> None:
    deadline = time.monotonic() + 60
    while not health.find_problems(changed=True):
        assert time.monotonic() < deadline
