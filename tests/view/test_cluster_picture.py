"""What nodes tell becomes one picture."""

from __future__ import annotations

from typing import Any

from tidelog.model.ids import TopicPartition
from tidelog.view.cluster_picture import ClusterPicture, NodeSeen, PartitionHealth

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

    assert (row.leader, row.in_sync, row.health) == (
        102,
        (102, 101),
        PartitionHealth.UNDER_REPLICATED,
    )
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


def test_what_a_silent_leader_leads_is_without_a_leader_until_it_answers() -> None:
    picture = healthy()
    picture.leaders_are_silent({100})
    (row,) = picture.take_changes().rows
    assert (row.leader, row.health) == (100, PartitionHealth.OFFLINE)

    picture.leaders_are_silent(set())

    changes = picture.take_changes()
    assert [each.health for each in changes.rows] == [PartitionHealth.FINE]
    assert changes.cluster


def test_records_that_arrive_change_a_row_and_nothing_of_the_cluster() -> None:
    picture = healthy()
    picture.hear("100", "partitions", told(replica(100, end=12), snapshot=False))

    changes = picture.take_changes()

    assert [each.log_end_offset for each in changes.rows] == [12]
    assert not changes.cluster


def test_the_quorum_is_told_by_the_one_that_leads_it() -> None:
    picture = healthy()

    assert picture.quorum["role"] == "leader"
    picture.lost("100", "gone")
    assert picture.quorum["role"] == "follower"
