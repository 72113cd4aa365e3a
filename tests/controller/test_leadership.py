"""What happens to partitions when brokers come, go, or lose a directory, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.leadership import directory_is_online
from tidelog.controller.records import RECOVERING
from tidelog.controller.registrations import BrokerRegistration
from tidelog.controller.result import IsrChange, PartitionLeaderChange
from tidelog.model.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER, ZERO_UUID
from tidelog.protocol.stored.metadata import (
    ConfigRecord,
    PartitionChangeRecord,
)

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

DIRECTORY = UUID(int=500)


@pytest.mark.parametrize(
    ("directory", "online"),
    [
        (DIRECTORY, True),
        (UUID(int=501), False),
        (DIRECTORY_UNASSIGNED, True),
        (ZERO_UUID, True),
        (DIRECTORY_LOST, False),
    ],
)
def test_a_replica_is_online_when_its_directory_is(directory: UUID, online: bool) -> None:
    broker = BrokerRegistration(
        broker_id=1, incarnation_id=UUID(int=1), broker_epoch=0, log_dirs=(DIRECTORY,)
    )

    assert directory_is_online(directory, broker) is online


def test_the_minimum_isr_is_never_more_than_the_replicas(new_cluster: NewCluster) -> None:
    cluster = new_cluster(min_insync_replicas="3")
    cluster.start(100, 101)
    cluster.create("orders", (100, 101))

    cluster.fence(101)

    assert cluster.lead_isr_elr() == (100, (100,), (101,))


def test_a_topic_may_allow_unclean_elections_for_itself(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100, 101)
    cluster.create("safe", (100, 101))
    cluster.create("loose", (100, 101), configs={"unclean.leader.election.enable": "true"})
    cluster.fence(101)
    cluster.beat(101)

    cluster.fence(100)

    assert cluster.partition("safe").leader == NO_LEADER
    assert cluster.partition("loose").leader == 101
    assert cluster.partition("loose").recovery_state == RECOVERING


def test_the_cluster_may_allow_unclean_elections_for_all(new_cluster: NewCluster) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(100, 101)
    cluster.create("loose", (100, 101))
    cluster.replay(
        ConfigRecord(
            resource_type=4, resource_name="", name="unclean.leader.election.enable", value="true"
        )
    )
    cluster.fence(101)
    cluster.beat(101)

    cluster.fence(100)

    assert cluster.partition("loose").leader == 101


def test_a_fenced_broker_leaves_every_isr_and_leads_nothing(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102), (101, 102, 100))

    cluster.fence(100)

    assert cluster.partition("orders", 0).leader == 101
    assert cluster.partition("orders", 0).isr == (101, 102)
    assert cluster.partition("orders", 1).leader == 101
    assert cluster.partition("orders", 1).isr == (101, 102)


def test_an_unfenced_broker_leads_what_has_no_leader_and_nothing_else(cluster: Cluster) -> None:
    cluster.create("orders", (100,))
    cluster.create("others", (100, 101))
    cluster.fence(100)
    assert cluster.lead_isr_elr() == (NO_LEADER, (), (100,))

    cluster.beat(100)

    assert cluster.lead_isr_elr() == (100, (100,), ())
    assert cluster.partition("others").leader == 101


def test_a_leader_change_says_who_led_who_leads_and_why(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102))
    cluster.wait(5000)
    cluster.beat(101)
    cluster.beat(102)
    cluster.wait(4000)

    cluster.do(cluster.controller.fence_one_overdue(cluster.now))

    why = "broker 100 was not heard of for 9000 ms"
    assert cluster.causes == [
        PartitionLeaderChange(
            topic="orders",
            partition=0,
            old=100,
            new=101,
            epoch=1,
            why=f"{why}; 101 is the first live in-sync replica",
        ),
        IsrChange(
            topic="orders",
            partition=0,
            old=(100, 101, 102),
            new=(101, 102),
            eligible=(),
            why=why,
        ),
    ]


def test_a_closed_connection_is_told_from_a_silent_broker(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.controller.broker_disconnected(100, cluster.now)
    cluster.wait(200)

    cluster.do(cluster.controller.fence_one_overdue(cluster.now))

    assert cluster.last_isr_change().why == (
        "broker 100 closed its connection and did not come back within 200 ms"
    )


def test_a_broker_that_spoke_again_is_not_said_to_have_hung_up(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.controller.broker_disconnected(100, cluster.now)
    cluster.beat(100)
    cluster.wait(9000)

    cluster.do(cluster.controller.fence_one_overdue(cluster.now))

    assert cluster.last_isr_change().why == "broker 100 was not heard of for 9000 ms"


def test_an_unclean_election_says_what_it_may_lose(new_cluster: NewCluster) -> None:
    cluster = new_cluster(min_insync_replicas="2")
    cluster.start(100, 101, 102)
    cluster.create("orders", (100, 101, 102), configs={"unclean.leader.election.enable": "true"})
    cluster.propose((100, 101))
    cluster.fence(101)

    cluster.fence(100)

    change = cluster.last_leader_change()
    assert (change.new, change.unclean) == (102, True)
    assert change.may_lose == "committed records that only 100, 101 had for sure"


def test_a_last_known_leader_may_have_lost_what_nobody_else_has(cluster: Cluster) -> None:
    cluster.create("orders", (101,))
    cluster.wait(9000)
    cluster.restart(101)
    cluster.beat(101)

    change = cluster.last_leader_change()
    assert (change.new, change.unclean) == (101, True)
    assert change.may_lose == (
        "committed records that 101 no longer has; nobody else is known to hold them"
    )


def test_a_broker_unfenced_with_a_directory_gone_ends_up_leading_nothing_there(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster()
    cluster.start(100, directories=2)
    cluster.create("orders", (100,))
    first, second = cluster.image.brokers[100].log_dirs
    topic_id = cluster.image.topics_by_name["orders"].topic_id
    cluster.replay(PartitionChangeRecord(topic_id=topic_id, partition_id=0, directories=(first,)))
    cluster.fence(100)

    cluster.beat(100, offline_log_dirs=(first,))

    assert cluster.lead_isr_elr() == (NO_LEADER, (), (100,))
    assert cluster.image.brokers[100].log_dirs == (second,)


def test_a_replaced_disk_is_neither_eligible_nor_forgotten(new_cluster: NewCluster) -> None:
    cluster = new_cluster(min_insync_replicas="2")
    cluster.start(100, 101)
    cluster.create("orders", (100, 101))
    epoch = cluster.image.brokers[101].broker_epoch
    cluster.fence(101)
    assert cluster.lead_isr_elr() == (100, (100,), (101,))
    cluster.wait(9000)
    cluster.beat(100)
    cluster.registrations[101] = cluster.registrations[101]._replace(log_dirs=(UUID(int=7000),))

    cluster.restart(101, previous_broker_epoch=epoch)

    assert cluster.lead_isr_elr() == (100, (100,), ())
    assert cluster.partition("orders").directory_of(101) == UUID(int=7000)


def test_a_replica_with_a_replaced_disk_may_lead_once_it_is_in_sync(cluster: Cluster) -> None:
    cluster.create("orders", (101, 100))
    cluster.wait(9000)
    cluster.beat(100)
    cluster.registrations[101] = cluster.registrations[101]._replace(log_dirs=(UUID(int=7000),))
    cluster.restart(101)
    cluster.beat(101)
    cluster.propose((100, 101))

    assert cluster.elect(0) is None
    assert cluster.partition("orders").leader == 101


def test_without_elr_a_last_member_with_a_replaced_disk_stays_offline(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(elr=False)
    cluster.start(101)
    cluster.create("orders", (101,))
    cluster.wait(9000)
    cluster.registrations[101] = cluster.registrations[101]._replace(log_dirs=(UUID(int=7000),))
    cluster.restart(101)
    cluster.beat(101)

    assert cluster.lead_isr_elr() == (NO_LEADER, (101,), ())


def test_a_new_minimum_voids_what_was_eligible_where_somebody_leads(
    new_cluster: NewCluster,
) -> None:
    cluster = new_cluster(min_insync_replicas="2")
    cluster.start(100, 101)
    cluster.create("led", (100, 101))
    cluster.create("silent", (101,))
    cluster.fence(101)
    assert cluster.lead_isr_elr("led") == (100, (100,), (101,))
    assert cluster.lead_isr_elr("silent") == (NO_LEADER, (), (101,))

    lower = ResourceChange(4, "", [ConfigChange("min.insync.replicas", ConfigOp.SET, "1")])
    cluster.do(cluster.controller.incremental_alter_configs([lower]))

    assert cluster.lead_isr_elr("led") == (100, (100,), ())
    assert cluster.lead_isr_elr("silent") == (NO_LEADER, (), (101,))
    assert cluster.partition("silent").last_known_elr == (101,)
    cluster.beat(101)
    assert cluster.lead_isr_elr("silent") == (101, (101,), ())


def came_back(cluster: Cluster) -> None:
    """Broker 101 was gone and is in sync again, ahead of 102 in the assignment."""
    cluster.create("orders", (100, 101, 102))
    cluster.fence(101)
    cluster.beat(101)
    cluster.propose((100, 101, 102))


def test_elections_prefer_a_broker_that_clients_can_reach(cluster: Cluster) -> None:
    came_back(cluster)

    cluster.fence(100)

    assert cluster.partition("orders").leader == 102
    assert cluster.last_leader_change().why.endswith(
        "102 is the first live in-sync replica but for 101, which has just come back"
    )


def test_a_broker_that_has_been_back_for_long_is_as_good_as_any(cluster: Cluster) -> None:
    came_back(cluster)
    cluster.wait(10_000)

    cluster.fence(100)

    assert cluster.partition("orders").leader == 101


def test_rather_a_leader_that_clients_reach_late_than_none(cluster: Cluster) -> None:
    came_back(cluster)
    cluster.fence(102)

    cluster.fence(100)

    assert cluster.partition("orders").leader == 101


def test_brokers_of_a_new_cluster_can_be_reached_at_once(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102))

    cluster.fence(100)

    assert cluster.partition("orders").leader == 101
