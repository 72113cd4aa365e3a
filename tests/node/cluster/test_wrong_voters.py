"""A controller that was formatted for the right cluster, but with voters that it has not: it stops
with the reason, and the quorum of the others goes on with all that it knows."""

from __future__ import annotations

from itertools import permutations

import pytest
from tests.node.cluster.conftest import (
    CLUSTER_ID,
    CONTROLLER_PORT,
    Cluster,
    Machine,
    NewCluster,
    Wire,
    _directory_id,
    _voter,
)
from tests.node.cluster.test_disbelief import fetch_answer, with_partition

from tidelog.controller.features import default_features
from tidelog.controller.records import encode_record
from tidelog.observe.events import NodeStopped
from tidelog.protocol.fetch import NodeEndpoint
from tidelog.quorum.control_records import Voter
from tidelog.quorum.formatting import format_directory
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem

OTHER_DISK = 900


def replica(node_id: int, disk: int = 0) -> Voter:
    """A voter, with its first directory or another one."""
    known = _voter(node_id)
    directory_id = _directory_id(node_id, disk)
    return Voter(voter_id=node_id, voter_directory_id=directory_id, endpoints=known.endpoints)


def formatted(machine: Machine, *voters: Voter, disk: int = 0) -> None:
    machine.files = MemoryFileSystem()
    format_directory(
        machine.files,
        "/data",
        cluster_id=CLUSTER_ID,
        node_id=machine.node_id,
        directory_id=_directory_id(machine.node_id, disk),
        bootstrap=[encode_record(record) for record in default_features()],
        voters=voters,
        wall_ms=machine.cluster.now.wall_ms,
    )


def with_history(cluster: Cluster, *node_ids: int) -> None:
    """The right quorum has run before, and knows a topic."""
    cluster.start(*node_ids)
    cluster.create_topic("before", factor=2)
    for node_id in node_ids:
        cluster[node_id].kill()


def grown_old(machine: Machine, elections: int) -> None:
    """It has led alone in many epochs, more than the others have seen."""
    for _ in range(elections):
        machine.start()
        machine.cluster.wait(200)
        machine.kill()


def require_right(cluster: Cluster, wrong: int, *right: int) -> str:
    """The right ones serve and decide, the wrong one has stopped: with which reason."""
    cluster.wait_until(lambda: cluster[wrong].stopped is not None, 30_000)
    cluster.wait_until(lambda: all(cluster[each].is_serving for each in right), 5000)
    assert all(cluster[each].stopped is None for each in right)
    cluster.create_topic("after", factor=2)
    cluster.wait(1000)
    for each in right:
        assert {"before", "after"} <= set(cluster[each].image.topics_by_name)
    [stopped] = cluster[wrong].of_kind(NodeStopped)
    return stopped.cause


@pytest.mark.parametrize("order", [*permutations((100, 101, 102))])
@pytest.mark.parametrize("gap_ms", [0, 3000])
@pytest.mark.parametrize("elections", [0, 4])
def test_who_takes_itself_for_the_only_voter_stops_whenever_it_comes(
    new_cluster: NewCluster, order: tuple[int, ...], gap_ms: int, elections: int
) -> None:
    three = new_cluster(3, controllers=3)
    with_history(three, 100, 101, 102)
    formatted(three[102], replica(102, OTHER_DISK), disk=OTHER_DISK)
    grown_old(three[102], elections)

    for node_id in order:
        three[node_id].start()
        three.wait(gap_ms)

    assert "only voter" in require_right(three, 102, 100, 101)


@pytest.mark.parametrize("gap_ms", [0, 3000])
def test_a_new_controller_that_was_formatted_as_the_first_stops(
    new_cluster: NewCluster, gap_ms: int
) -> None:
    four = new_cluster(4, controllers=4)
    right = (100, 101, 102)
    for node_id in right:
        formatted(four[node_id], *map(replica, right))
    with_history(four, *right)
    formatted(four[103], replica(103))
    grown_old(four[103], 4)

    for node_id in (103, *right):
        four[node_id].start()
        four.wait(gap_ms)

    cause = require_right(four, 103, *right)
    assert "of the same cluster follow controller 10" in cause
    assert "--no-initial-controllers" in cause


def test_who_names_other_directories_of_the_voters_stops(new_cluster: NewCluster) -> None:
    three = new_cluster(3, controllers=3)
    with_history(three, 100, 101, 102)
    others = [replica(each, OTHER_DISK) for each in (100, 101, 102)]
    formatted(three[102], *others, disk=OTHER_DISK)

    for node_id in (102, 100, 101):
        three[node_id].start()

    assert "100, 101 are not the voters" in require_right(three, 102, 100, 101)


def test_the_first_voter_leads_although_the_others_have_yet_to_join(
    new_cluster: NewCluster,
) -> None:
    three = new_cluster(3, controllers=3)
    formatted(three[100], replica(100))
    for node_id in (101, 102):
        formatted(three[node_id])

    three.start()
    three.wait(20_000)

    assert all(machine.stopped is None for machine in three.machines.values())
    three.create_topic("orders", factor=3)


@pytest.mark.parametrize("order", [*permutations((100, 101))])
def test_a_first_voter_that_keeps_topics_stays_and_who_was_formatted_as_another_first_goes(
    new_cluster: NewCluster, order: tuple[int, ...]
) -> None:
    two = new_cluster(2, controllers=2)
    formatted(two[100], replica(100))
    two.start(100)
    two.create_topic("before", factor=1)
    two[100].kill()
    formatted(two[101], replica(101))

    for node_id in order:
        two[node_id].start()
    two.wait_until(lambda: two[101].stopped is not None, 30_000)

    assert two[100].stopped is None
    assert "before" in two[100].image.topics_by_name


@pytest.mark.parametrize(
    ("leader_id", "host", "later", "stops"),
    [
        (102, "node-102", 0, False),
        (102, "elsewhere", 0, True),
        (102, "node-102", 1, True),
        (-7, "elsewhere", 0, False),
    ],
)
def test_a_first_voter_stops_when_the_others_follow_another_replica_with_its_id(
    new_cluster: NewCluster, leader_id: int, host: str, later: int, stops: bool
) -> None:
    three = new_cluster(3, controllers=3)
    for node_id in (100, 101):
        formatted(three[node_id], replica(100), replica(101))
    three.start(100, 101)
    formatted(three[102], replica(102))

    def become(wire: Wire, frame: bytes) -> bytes:
        answer = fetch_answer(frame)
        if wire.caller is not three[102] or answer is None:
            return frame
        leader = (leader_id, three[102].node.quorum.epoch + later)
        where = [NodeEndpoint(leader_id, host, CONTROLLER_PORT)]
        return with_partition(answer._replace(node_endpoints=where), current_leader=leader)

    three.answer_becomes = become
    three[102].start()
    three.wait(10_000)

    assert (three[102].stopped is not None) is stops
    assert three[100].stopped is None and three[101].stopped is None


def test_who_was_given_the_log_until_now_does_not_stop_at_the_first_refusal(
    new_cluster: NewCluster,
) -> None:
    three = new_cluster(3, controllers=3)
    three.start()
    three.wait(20_000)
    left = next(each for each in three.machines.values() if not each.node.quorum.is_leader)
    others = [each for each in three.machines.values() if each is not left]
    for each in others:
        each.kill()
        formatted(each, *(replica(of, OTHER_DISK) for of in three.machines), disk=OTHER_DISK)
    for each in others:
        each.start()

    three.wait(3000)
    assert left.stopped is None
    three.wait_until(lambda: left.stopped is not None, 30_000)
    [stopped] = left.of_kind(NodeStopped)
    assert "are not the voters that this node's directory names" in stopped.cause
