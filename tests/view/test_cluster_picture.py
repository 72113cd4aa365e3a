"""What nodes tell becomes one picture, and what is wrong with it is said worst first."""

from __future__ import annotations

from typing import Any

from tidelog.model.ids import TopicPartition
from tidelog.view.cluster_picture import (
    ClusterPicture,
    NodeProcessState,
    NodeSeen,
    PartitionHealth,
)
from tidelog.view.problems import Severity, find_problems

ORDERS = TopicPartition("orders", 0)
NODES = (100, 101, 102)


def metadata(leader: int = 100, isr: tuple[int, ...] = NODES, **other: Any) -> dict[str, Any]:
    return {
        "topic": "orders",
        "partition": 0,
        "leader": leader,
        "leader_epoch": 4,
        "partition_epoch": 9,
        "replicas": list(NODES),
        "isr": list(isr),
        "eligible": [],
        **other,
    }


def replica(node: int, leader: int = 100, end: int = 10, **other: Any) -> dict[str, Any]:
    return {
        **metadata(leader),
        "role": "leader" if node == leader else "follower",
        "min_isr": 2,
        "log_start_offset": 0,
        "log_end_offset": end,
        "high_watermark": end - 1,
        "followers": {"101": end, "102": end} if node == leader else None,
        "parked": 1,
        **other,
    }


def told(*partitions: dict[str, Any], snapshot: bool = True, left: int = 0) -> dict[str, Any]:
    return {"at_ms": 1, "snapshot": snapshot, "left": left, "partitions": list(partitions)}


def hello(node: int) -> dict[str, Any]:
    return {"node": node, "version": "1", "cluster_id": "c", "roles": ["broker", "controller"]}


def cluster(
    leader: int = 100, role: str = "leader", fenced: tuple[int, ...] = ()
) -> dict[str, Any]:
    brokers = [
        {"id": each, "epoch": 1, "fenced": each in fenced, "shutting_down": False, "endpoints": []}
        for each in NODES
    ]
    quorum = {"leader": leader, "epoch": 3, "role": role, "voters": []}
    return {"quorum": quorum, "brokers": brokers, "directories": []}


def healthy() -> ClusterPicture:
    """Three nodes that tell of one partition that 100 leads."""
    picture = ClusterPicture(NodeSeen(str(each), each) for each in NODES)
    for node in NODES:
        picture.connected(str(node))
        picture.hear(str(node), "hello", hello(node))
        picture.hear(str(node), "cluster", cluster(role="leader" if node == 100 else "follower"))
        picture.hear(str(node), "partitions", told(replica(node)))
    picture.hear("100", "metadata", told(metadata()))
    picture.take_changes()
    return picture


def test_a_row_has_leadership_from_the_metadata_and_offsets_from_the_leader() -> None:
    picture = healthy()
    picture.hear("102", "partitions", told(replica(102, leader=102, end=7), snapshot=False))
    picture.hear("100", "metadata", told(metadata(102, (102, 101)), snapshot=False))

    (row,) = picture.take_changes().rows

    assert (row.leader, row.isr, row.health) == (102, (102, 101), PartitionHealth.UNDER_REPLICATED)
    assert (row.log_end_offset, row.high_watermark, row.min_isr) == (7, 6, 2)


def test_what_did_not_change_is_not_told_again() -> None:
    picture = healthy()
    picture.hear("100", "metadata", told(metadata(), snapshot=False))

    assert picture.take_changes().rows == []


def test_a_partition_that_a_new_snapshot_leaves_out_is_gone() -> None:
    picture = healthy()
    for node in NODES:
        picture.hear(str(node), "hello", hello(node))
        picture.hear(str(node), "partitions", told())
    picture.hear("100", "metadata", told(metadata(topic="other"), left=1))
    assert ORDERS in picture.rows
    picture.hear("100", "metadata", told(metadata(topic="more")))

    changes = picture.take_changes()

    assert changes.removed == [ORDERS]
    assert set(picture.rows) == {TopicPartition("other", 0), TopicPartition("more", 0)}


def test_a_healthy_cluster_has_no_problems() -> None:
    assert find_problems(healthy()) == []


def test_a_partition_without_a_leader_comes_before_one_that_lacks_replicas() -> None:
    picture = healthy()
    other = metadata(101, (101, 100), topic="payments")
    gone = metadata(-1, ())
    picture.hear("100", "metadata", told(gone, other, snapshot=False))
    picture.take_changes()

    problems = find_problems(picture)

    assert [(each.severity, each.filter) for each in problems] == [
        (Severity.CRITICAL, "offline"),
        (Severity.WARNING, "under-replicated"),
        (Severity.NOTICE, "not-preferred"),
    ]
    assert problems[0].sentence == "orders-0 has no leader: neither writes nor reads."
    assert problems[1].sentence == "payments-0 has replicas out of sync, on broker 102."


def test_fewer_in_sync_replicas_than_the_minimum_refuse_writes() -> None:
    picture = healthy()
    picture.hear("100", "metadata", told(metadata(100, (100,)), snapshot=False))
    picture.take_changes()

    (problem,) = find_problems(picture)

    assert problem.sentence.endswith("than min.insync.replicas: acks=all is refused.")


def test_a_killed_node_is_named_with_its_reason_and_the_way_back() -> None:
    picture = healthy()
    picture.lost("101", "nobody listens there")
    picture.process_is("101", NodeProcessState("stopped", "killed, SIGKILL"))

    (problem,) = find_problems(picture)

    assert problem.sentence == "Node 101 is stopped: killed, SIGKILL."
    assert problem.advice == "`tidelog node start 101` brings it back"


def test_a_paused_node_still_has_its_connection_and_is_a_problem_all_the_same() -> None:
    picture = healthy()
    picture.process_is("102", NodeProcessState("paused"))

    assert [each.sentence for each in find_problems(picture)] == ["Node 102 is paused."]


def test_controllers_without_a_leader_are_the_worst_problem() -> None:
    picture = healthy()
    for node in NODES:
        picture.hear(str(node), "cluster", cluster(-1, "candidate"))

    assert find_problems(picture)[0].sentence.startswith("No controller leads")


def test_the_quorum_is_told_by_the_one_that_leads_it() -> None:
    picture = healthy()

    assert picture.quorum["role"] == "leader"
    picture.lost("100", "gone")
    assert picture.quorum["role"] == "follower"
