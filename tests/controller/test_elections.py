"""Elections that somebody asked for, and unclean ones that are tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.elections import MAX_PER_PASS, ElectionPass, ElectionType
from tidelog.controller.records import RECOVERED, RECOVERING
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_LEADER

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster

UNCLEAN_ON = ConfigChange("unclean.leader.election.enable", ConfigOp.SET, "true")


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, Refusal), outcome
    return outcome.code


@pytest.fixture
def leaderless(cluster: Cluster) -> Cluster:
    """The only replica in sync is gone; 101 and 102 live."""
    cluster.create("orders", (100, 101, 102))
    cluster.propose((100,))
    cluster.fence(100)
    assert cluster.lead_isr_elr() == (NO_LEADER, (), (100,))
    return cluster


def test_a_preferred_election_gives_leadership_back(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101, 102))
    cluster.fence(100)
    cluster.beat(100)
    cluster.propose((101, 102, 100))

    assert cluster.elect(ElectionType.PREFERRED) is None

    assert cluster.lead_isr_elr() == (100, (101, 102, 100), ())
    assert cluster.last_leader_change().why == (
        "a preferred election was asked for; 100 is its preferred leader"
    )


def test_a_preferred_leader_needs_no_election(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))

    assert code(cluster.elect(ElectionType.PREFERRED)) is ErrorCode.election_not_needed


def test_a_preferred_replica_that_is_not_in_sync_is_not_available(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.fence(100)
    cluster.beat(100)

    outcome = cluster.elect(ElectionType.PREFERRED)

    assert code(outcome) is ErrorCode.preferred_leader_not_available
    assert cluster.partition("orders").leader == 101


def test_an_unclean_election_needs_a_partition_without_leader(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))

    assert code(cluster.elect(ElectionType.UNCLEAN)) is ErrorCode.election_not_needed


def test_an_operator_may_ask_for_an_unclean_election_whatever_the_topic_says(
    leaderless: Cluster,
) -> None:
    assert leaderless.elect(ElectionType.UNCLEAN) is None

    partition = leaderless.partition("orders")
    assert (partition.leader, partition.isr, partition.elr) == (101, (101,), ())
    assert partition.recovery_state == RECOVERING
    change = leaderless.last_leader_change()
    assert (change.old, change.new, change.unclean) == (NO_LEADER, 101, True)
    assert change.may_lose == "committed records that only 100 had for sure"


def test_an_eligible_replica_that_comes_back_leads_without_loss(leaderless: Cluster) -> None:
    leaderless.beat(100)

    assert leaderless.lead_isr_elr() == (100, (100,), ())
    assert leaderless.partition("orders").recovery_state == RECOVERED
    assert not leaderless.last_leader_change().unclean


def test_nobody_live_nobody_elected(leaderless: Cluster) -> None:
    leaderless.fence(101, 102)

    assert code(leaderless.elect(ElectionType.UNCLEAN)) is (
        ErrorCode.eligible_leaders_not_available
    )


def test_unknown_partitions_and_types_are_refused(cluster: Cluster) -> None:
    cluster.create("orders", (100,))

    assert code(cluster.elect(0, topic="nothing")) is ErrorCode.unknown_topic_or_partition
    assert code(cluster.elect(0, index=7)) is ErrorCode.unknown_topic_or_partition
    assert code(cluster.elect(2)) is ErrorCode.invalid_request


def test_asked_for_all_only_partitions_that_needed_an_election_are_named(
    cluster: Cluster,
) -> None:
    cluster.create("orders", (100, 101), (101, 100), (100, 102))
    cluster.fence(100)
    cluster.beat(100)
    cluster.propose((101, 100), index=0)

    reply = cluster.do(cluster.controller.elect_leaders(ElectionType.PREFERRED, None))

    assert isinstance(reply, list)
    [(topic, [first, second])] = reply
    assert (topic, first) == ("orders", (0, None))
    assert second[0] == 2
    assert code(second[1]) is ErrorCode.preferred_leader_not_available
    assert cluster.partition("orders").leader == 100


def test_a_partition_named_twice_is_elected_once(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.fence(100)
    cluster.beat(100)
    cluster.propose((101, 100))
    decision = cluster.controller.elect_leaders(ElectionType.PREFERRED, [("orders", [0, 0])])

    assert isinstance(decision.reply, list)
    [(_, [(_, first), (_, second)])] = decision.reply
    assert first is None
    assert code(second) is ErrorCode.election_not_needed
    assert len(decision.records) == 1


def test_unclean_elections_are_tried_again_where_the_topic_came_to_allow_them(
    leaderless: Cluster,
) -> None:
    controller = leaderless.controller
    wait_ms = leaderless.config.unclean_leader_election_interval_ms
    nothing = leaderless.do(controller.retry_unclean_elections(leaderless.now))
    assert nothing == ElectionPass(0, leaderless.now.monotonic_ms + wait_ms)

    allow = ResourceChange(2, "orders", [UNCLEAN_ON])
    leaderless.do(controller.incremental_alter_configs([allow]))
    again = leaderless.do(controller.retry_unclean_elections(leaderless.now))

    assert again.elections == 1
    assert leaderless.partition("orders").leader == 101
    assert leaderless.partition("orders").recovery_state == RECOVERING
    assert leaderless.last_leader_change().unclean


def test_a_full_pass_is_followed_by_the_next_at_once(new_cluster: NewCluster) -> None:
    cluster = new_cluster()
    cluster.start(100, 101)
    cluster.create("many", *[(100, 101)] * (MAX_PER_PASS + 5))
    for index in range(MAX_PER_PASS + 5):
        cluster.propose((100,), topic="many", index=index)
    cluster.fence(100)
    allow = ResourceChange(2, "many", [UNCLEAN_ON])
    cluster.do(cluster.controller.incremental_alter_configs([allow]))

    first = cluster.do(cluster.controller.retry_unclean_elections(cluster.now))
    second = cluster.do(cluster.controller.retry_unclean_elections(cluster.now))

    assert first == ElectionPass(MAX_PER_PASS, cluster.now.monotonic_ms)
    assert second.elections == 5
    assert second.next_check_ms > cluster.now.monotonic_ms
