"""Partitions on their way to other brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.reassignment import NewPartitionReassignment, OngoingReassignment
from tidelog.controller.records import RECOVERED, RECOVERING
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import DIRECTORY_UNASSIGNED

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


@pytest.fixture
def cluster(new_cluster: NewCluster) -> Cluster:
    """Five live brokers; the first three hold the topic, which needs two in sync."""
    made = new_cluster(min_insync_replicas="2")
    made.start(100, 101, 102, 103, 104)
    made.create("orders", (100, 101, 102))
    return made


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


def assignment(cluster: Cluster) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    partition = cluster.partition("orders")
    return partition.replicas, partition.adding, partition.removing


def test_a_reassignment_adds_replicas_without_putting_them_in_sync(cluster: Cluster) -> None:
    assert cluster.reassign((103, 104, 101)) is None

    assert assignment(cluster) == ((103, 104, 101, 100, 102), (103, 104), (100, 102))
    assert cluster.lead_isr_elr() == (100, (100, 101, 102), ())
    assert cluster.partition("orders").leader_epoch == 0


def test_new_replicas_get_the_only_directory_of_their_broker(cluster: Cluster) -> None:
    cluster.start(105, directories=2)
    cluster.reassign((100, 103, 105))

    partition = cluster.partition("orders")
    assert partition.directory_of(103) == cluster.image.brokers[103].log_dirs[0]
    assert partition.directory_of(105) == DIRECTORY_UNASSIGNED


def test_a_reassignment_ends_when_its_leader_takes_the_last_new_replica_in(
    cluster: Cluster,
) -> None:
    cluster.reassign((103, 104, 101))
    cluster.propose((100, 101, 102, 103))
    assert assignment(cluster)[1:] == ((103, 104), (100, 102))

    assert code(cluster.propose((100, 101, 102, 103, 104))) is ErrorCode.new_leader_elected

    assert assignment(cluster) == ((103, 104, 101), (), ())
    assert cluster.lead_isr_elr() == (103, (101, 103, 104), ())


def test_a_reassignment_ends_only_with_as_many_in_sync_as_the_topic_asks_for(
    cluster: Cluster,
) -> None:
    """Apache Kafka ends it as soon as 103 is in sync, with nobody beside it."""
    cluster.reassign((103, 101, 102))
    cluster.propose((100, 103))
    assert assignment(cluster) == ((103, 101, 102, 100), (103,), (100,))

    cluster.propose((100, 101, 103))
    assert assignment(cluster) == ((103, 101, 102), (), ())


def test_another_order_is_done_at_once_and_moves_no_leader(cluster: Cluster) -> None:
    assert cluster.reassign((102, 101, 100)) is None

    assert assignment(cluster) == ((102, 101, 100), (), ())
    partition = cluster.partition("orders")
    assert (partition.leader, partition.leader_epoch, partition.partition_epoch) == (100, 0, 1)


def test_fewer_replicas_are_done_at_once_when_those_that_stay_are_in_sync(
    cluster: Cluster,
) -> None:
    assert cluster.reassign((101, 102)) is None

    assert assignment(cluster) == ((101, 102), (), ())
    assert cluster.lead_isr_elr() == (101, (101, 102), ())
    assert cluster.partition("orders").leader_epoch == 1


def test_fewer_replicas_wait_for_those_that_stay(cluster: Cluster) -> None:
    cluster.propose((100, 101))

    assert cluster.reassign((101, 102)) is None

    assert assignment(cluster) == ((101, 102, 100), (), (100,))
    assert cluster.lead_isr_elr() == (100, (100, 101), ())


def test_the_same_replicas_again_change_nothing(cluster: Cluster) -> None:
    offset = cluster.next_offset

    assert cluster.reassign((100, 101, 102)) is None
    assert cluster.next_offset == offset


@pytest.mark.parametrize("replicas", [(), (100, 100), (100, 77)])
def test_an_assignment_names_registered_brokers_once(
    cluster: Cluster, replicas: tuple[int, ...]
) -> None:
    assert code(cluster.reassign(replicas)) is ErrorCode.invalid_replica_assignment


def test_unknown_partitions_are_refused_each_for_itself(cluster: Cluster) -> None:
    reply = cluster.do(
        cluster.controller.alter_partition_reassignments(
            [
                ("nothing", [NewPartitionReassignment(0, (100,))]),
                (
                    "orders",
                    [NewPartitionReassignment(5, (100,)), NewPartitionReassignment(0, (100, 103))],
                ),
            ]
        )
    )

    assert isinstance(reply, list)
    [(_, [(_, no_topic)]), (_, [(_, no_partition), (_, fine)])] = reply
    assert code(no_topic) is ErrorCode.unknown_topic_or_partition
    assert code(no_partition) is ErrorCode.unknown_topic_or_partition
    assert fine is None


def test_the_replication_factor_changes_only_where_that_is_allowed(cluster: Cluster) -> None:
    refused = cluster.reassign((100, 103), allow_replication_factor_change=False)
    assert code(refused) is ErrorCode.invalid_replication_factor

    assert cluster.reassign((100, 101, 103), allow_replication_factor_change=False) is None
    assert cluster.reassign((100, 101, 104), allow_replication_factor_change=False) is None


def test_to_cancel_drops_those_who_were_to_come(cluster: Cluster) -> None:
    cluster.reassign((103, 104, 101))
    cluster.propose((100, 101, 102, 103))

    assert cluster.reassign(None) is None

    replicas, adding, removing = assignment(cluster)
    assert (set(replicas), adding, removing) == ({100, 101, 102}, (), ())
    assert cluster.lead_isr_elr() == (100, (100, 101, 102), ())
    change = cluster.last_leader_change()
    assert (change.old, change.new, change.epoch) == (100, 100, 1)
    assert change.why == (
        "the reassignment was cancelled, back to 101, 100, 102; 100 goes on leading in a new epoch"
    )


def test_there_must_be_something_to_cancel(cluster: Cluster) -> None:
    assert code(cluster.reassign(None)) is ErrorCode.no_reassignment_in_progress


def only_new_replicas_in_sync(cluster: Cluster) -> None:
    cluster.reassign((103, 104, 100))
    cluster.propose((100, 103))
    cluster.fence(100)
    assert cluster.lead_isr_elr() == (103, (103,), (100,))


def test_to_go_back_without_anyone_in_sync_is_refused(cluster: Cluster) -> None:
    only_new_replicas_in_sync(cluster)

    assert code(cluster.reassign(None)) is ErrorCode.invalid_replica_assignment


def test_to_go_back_without_anyone_in_sync_is_an_unclean_election(cluster: Cluster) -> None:
    cluster.create("loose", (100, 101), configs={"unclean.leader.election.enable": "true"})
    cluster.reassign((103, 104), topic="loose")
    cluster.propose((100, 103), topic="loose")
    cluster.fence(100)
    assert cluster.lead_isr_elr("loose") == (103, (103,), (100,))

    assert cluster.reassign(None, topic="loose") is None

    partition = cluster.partition("loose")
    assert (partition.leader, partition.isr, partition.elr) == (101, (101,), ())
    assert (partition.replicas, partition.recovery_state) == ((100, 101), RECOVERING)
    assert cluster.last_leader_change().unclean


def test_to_go_back_to_an_eligible_replica_is_clean(cluster: Cluster) -> None:
    cluster.create("loose", (100, 101), configs={"unclean.leader.election.enable": "true"})
    cluster.reassign((103, 104), topic="loose")
    cluster.propose((100, 103), topic="loose")
    cluster.fence(100)
    cluster.beat(100)

    assert cluster.reassign(None, topic="loose") is None

    partition = cluster.partition("loose")
    assert (partition.leader, partition.isr, partition.recovery_state) == (100, (100,), RECOVERED)


def test_to_go_back_to_dead_brokers_is_refused(cluster: Cluster) -> None:
    cluster.create("loose", (100,), configs={"unclean.leader.election.enable": "true"})
    cluster.reassign((103, 104), topic="loose")
    cluster.propose((100, 103), topic="loose")
    cluster.fence(100)

    assert code(cluster.reassign(None, topic="loose")) is ErrorCode.invalid_replica_assignment


def test_a_new_wish_takes_the_place_of_the_one_under_way(cluster: Cluster) -> None:
    cluster.reassign((103, 101, 102))

    cluster.reassign((104, 101, 102))

    assert assignment(cluster) == ((104, 101, 102, 100), (104,), (100,))
    assert cluster.partition("orders").leader_epoch == 1


def test_a_new_replica_that_is_in_sync_goes_only_with_the_others(cluster: Cluster) -> None:
    cluster.reassign((103, 104, 102))
    cluster.propose((100, 101, 102, 103))

    cluster.reassign((104, 101, 102))

    assert assignment(cluster) == ((104, 101, 102, 100, 103), (104,), (100, 103))


def test_a_new_replica_that_is_wanted_still_has_to_come_in_sync(cluster: Cluster) -> None:
    cluster.reassign((103, 101, 102))

    cluster.reassign((100, 101, 102, 103))
    assert assignment(cluster) == ((100, 101, 102, 103), (103,), ())
    cluster.propose((100, 101, 102, 103))
    assert assignment(cluster) == ((100, 101, 102, 103), (), ())


def test_a_reassignment_goes_on_when_its_leader_dies(cluster: Cluster) -> None:
    cluster.reassign((103, 104, 101))

    cluster.fence(100)

    assert assignment(cluster)[1:] == ((103, 104), (100, 102))
    assert cluster.lead_isr_elr() == (101, (101, 102), ())


def test_a_reassignment_waits_for_a_new_replica_that_died_on_the_way(cluster: Cluster) -> None:
    cluster.reassign((101, 103, 104))
    cluster.propose((100, 101, 102, 103))
    cluster.fence(103)

    cluster.propose((100, 101, 102, 104))
    assert assignment(cluster)[1:] == ((103, 104), (100, 102))
    cluster.beat(103)
    cluster.propose((100, 101, 102, 103, 104))
    assert assignment(cluster) == ((101, 103, 104), (), ())


def test_a_dropped_replica_that_is_added_again_is_not_eligible(cluster: Cluster) -> None:
    cluster.propose((100,))
    assert cluster.lead_isr_elr() == (100, (100,), (101, 102))
    cluster.reassign((100,))
    assert cluster.lead_isr_elr() == (100, (100,), ())

    cluster.reassign((100, 101))
    cluster.fence(100)

    assert cluster.lead_isr_elr() == (-1, (), (100,))


def test_what_is_under_way_can_be_listed(cluster: Cluster) -> None:
    cluster.create("others", (100,))
    cluster.reassign((103, 101, 102))
    ongoing = [
        (
            "orders",
            [OngoingReassignment(0, (103, 101, 102, 100), (103,), (100,))],
        )
    ]
    listed = cluster.controller.list_partition_reassignments

    assert listed().reply == ongoing
    assert listed([("orders", [0, 7]), ("others", [0]), ("nothing", [0])]).reply == ongoing
    assert listed([("others", [0])]).reply == []
    cluster.reassign(None)
    assert listed().reply == []


def test_a_request_cannot_be_larger_than_one_change_of_the_cluster(cluster: Cluster) -> None:
    requests = [
        ("orders", [NewPartitionReassignment(0, replicas)]) for replicas in ((100,), (100, 103))
    ]
    decision = cluster.controller.alter_partition_reassignments(requests * 5001)

    assert code(decision.reply) is ErrorCode.policy_violation
    assert decision.records == ()
