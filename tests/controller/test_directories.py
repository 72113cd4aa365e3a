"""Where brokers keep their replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


@pytest.fixture
def wide(new_cluster: NewCluster) -> Cluster:
    """Two brokers with two directories each, and a topic on both."""
    cluster = new_cluster()
    cluster.start(100, 101, directories=2)
    cluster.create("orders", (100, 101))
    return cluster


def assign(cluster: Cluster, broker_id: int, *places: ReplicaDirectory) -> AssignedReplicas:
    epoch = cluster.image.brokers[broker_id].broker_epoch
    outcome = cluster.do(
        cluster.controller.assign_replicas_to_directories(broker_id, epoch, places)
    )
    assert not isinstance(outcome, Refusal)
    return outcome


def place(cluster: Cluster, directory_id: UUID, index: int = 0) -> ReplicaDirectory:
    return ReplicaDirectory(directory_id, cluster.image.topics_by_name["orders"].topic_id, index)


def test_a_broker_with_several_directories_says_where_a_replica_lies(wide: Cluster) -> None:
    assert wide.partition("orders").directory_of(100) == DIRECTORY_UNASSIGNED
    second = wide.image.brokers[100].log_dirs[1]
    assert assign(wide, 100, place(wide, second)) == [(place(wide, second), None)]
    assert wide.partition("orders").directory_of(100) == second
    assert wide.partition("orders").directory_of(101) == DIRECTORY_UNASSIGNED
    epoch = wide.partition("orders").partition_epoch
    assign(wide, 100, place(wide, second))
    assert wide.partition("orders").partition_epoch == epoch, "nothing new is not written"


@pytest.mark.parametrize("directory_id", [DIRECTORY_LOST, UUID(int=987654)])
def test_a_replica_in_a_directory_that_is_offline_leaves_the_isr(
    wide: Cluster, directory_id: UUID
) -> None:
    assign(wide, 100, place(wide, directory_id))
    partition = wide.partition("orders")
    assert (partition.leader, partition.isr) == (101, (101,))
    assert partition.directory_of(100) == directory_id


def test_a_replica_that_was_lost_leads_again_what_nobody_leads_once_it_has_a_place(
    wide: Cluster,
) -> None:
    for broker_id in (100, 101):
        assign(wide, broker_id, place(wide, DIRECTORY_LOST))
    assert wide.partition("orders").leader == NO_LEADER

    assign(wide, 101, place(wide, wide.image.brokers[101].log_dirs[1]))

    partition = wide.partition("orders")
    assert (partition.leader, partition.isr) == (101, (101,))


def test_places_that_cannot_be_are_refused_one_by_one(wide: Cluster) -> None:
    [first, _] = wide.image.brokers[100].log_dirs
    unknown = ReplicaDirectory(first, UUID(int=5), 0)
    wide.start(102)
    outcome = assign(wide, 100, unknown, place(wide, first, 7), place(wide, first))
    codes = [refusal.code if refusal else ErrorCode.none for _, refusal in outcome]
    assert codes == [
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
        ErrorCode.none,
    ]
    [(_, refused)] = assign(wide, 102, place(wide, wide.image.brokers[102].log_dirs[0]))
    assert refused is not None
    assert refused.code is ErrorCode.not_leader_or_follower


def test_a_stale_broker_is_not_believed(wide: Cluster) -> None:
    decision = wide.controller.assign_replicas_to_directories(100, 0, ())
    assert isinstance(decision.reply, Refusal)
    assert decision.reply.code is ErrorCode.stale_broker_epoch
