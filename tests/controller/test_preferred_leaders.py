"""Leadership goes back to preferred replicas once too much of it is elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.controller.elections import ElectionPass

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster, NewCluster


RECONNECT_GRACE_MS = 10_000


def look(cluster: Cluster) -> ElectionPass:
    return cluster.do(cluster.controller.balance_leaders(cluster.now))


def balance(cluster: Cluster) -> int:
    """Look when clients have had the time to try again whoever was gone."""
    cluster.wait(RECONNECT_GRACE_MS)
    return look(cluster).elections


def lose_leadership(cluster: Cluster, *indexes: int) -> None:
    """Broker 100 gives these partitions up and is in sync again."""
    cluster.create("orders", *[(100, 101)] * 10)
    cluster.fence(100)
    cluster.beat(100)
    for index in range(10):
        cluster.propose((101, 100), index=index)
        if index not in indexes:
            cluster.do(cluster.controller.elect_leaders(0, [("orders", [index])]))
    cluster.causes.clear()


def test_leaders_return_when_more_than_the_tolerated_share_is_elsewhere(
    cluster: Cluster,
) -> None:
    lose_leadership(cluster, 3, 4)

    assert balance(cluster) == 2

    assert all(cluster.partition("orders", index).leader == 100 for index in range(10))
    assert cluster.last_leader_change().why == (
        "2 of 10 partitions that prefer 100 were led by others, more than 10 percent; "
        "100 is its preferred leader"
    )


def test_a_tolerated_share_stays_elsewhere(cluster: Cluster) -> None:
    lose_leadership(cluster, 3)

    assert balance(cluster) == 0
    assert cluster.partition("orders", 3).leader == 101


@pytest.mark.parametrize(("percentage", "moved"), [("0", 1), ("9", 1), ("10", 0), ("100", 0)])
def test_how_much_is_tolerated_can_be_set(
    new_cluster: NewCluster, percentage: str, moved: int
) -> None:
    cluster = new_cluster(leader_imbalance_per_broker_percentage=percentage)
    cluster.start(100, 101)
    lose_leadership(cluster, 3)

    assert balance(cluster) == moved


def test_a_preferred_replica_that_is_not_in_sync_gets_nothing(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.fence(100)
    cluster.beat(100)

    assert balance(cluster) == 0
    assert cluster.partition("orders").leader == 101


def test_a_broker_that_is_not_live_gets_nothing(cluster: Cluster) -> None:
    cluster.create("orders", (100, 101))
    cluster.fence(100)

    assert balance(cluster) == 0


def test_each_broker_is_weighed_by_itself(cluster: Cluster) -> None:
    lose_leadership(cluster, 3)
    cluster.create("others", (102, 101))
    cluster.fence(102)
    cluster.beat(102)
    cluster.propose((101, 102), topic="others")

    assert balance(cluster) == 1
    assert cluster.partition("others").leader == 102
    assert cluster.partition("orders", 3).leader == 101


def test_balancing_can_be_switched_off(new_cluster: NewCluster) -> None:
    cluster = new_cluster(auto_leader_rebalance_enable="false")
    cluster.start(100, 101)
    lose_leadership(cluster, *range(10))

    assert balance(cluster) == 0


def test_the_next_look_is_an_interval_away(new_cluster: NewCluster) -> None:
    cluster = new_cluster(leader_imbalance_check_interval_seconds="7")

    assert look(cluster) == ElectionPass(0, cluster.now.monotonic_ms + 7000)


def test_leadership_waits_until_clients_can_be_expected_to_reach_the_broker(
    cluster: Cluster,
) -> None:
    """A client that tried it in vain waits for up to 10 s before it tries again."""
    lose_leadership(cluster, *range(10))
    cluster.wait(RECONNECT_GRACE_MS - 1)

    assert look(cluster) == ElectionPass(0, cluster.now.monotonic_ms + 1)
    assert cluster.partition("orders").leader == 101

    cluster.wait(1)
    assert look(cluster).elections == 10
    assert cluster.partition("orders").leader == 100


def test_the_wait_can_be_switched_off(new_cluster: NewCluster) -> None:
    cluster = new_cluster(broker_reconnect_grace_ms="0")
    cluster.start(100, 101)
    lose_leadership(cluster, *range(10))

    assert look(cluster).elections == 10


def test_a_new_controller_does_not_know_who_came_back_and_waits_for_everyone(
    cluster: Cluster,
) -> None:
    lose_leadership(cluster, *range(10))
    cluster.wait(RECONNECT_GRACE_MS)
    cluster.do(cluster.controller.activate(cluster.now))

    assert look(cluster) == ElectionPass(0, cluster.now.monotonic_ms + RECONNECT_GRACE_MS)
    assert balance(cluster) == 10


def test_whoever_asks_for_an_election_gets_it_at_once(cluster: Cluster) -> None:
    lose_leadership(cluster, 3)

    assert cluster.elect(0, index=3) is None
    assert cluster.partition("orders", 3).leader == 100
