from __future__ import annotations

from typing import Any

import pytest

from tidelog.client.admin import BrokerEntry, QuorumDescription, QuorumMember
from tidelog.client.metadata import PartitionView
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.monitor.metrics_text import read_metrics
from tidelog.monitor.problems import (
    LITTLE_ROOM_BYTES,
    UNCLEAN_TOLD_FOR_MS,
    Problem,
    Severity,
    all_is_well,
    as_object,
    problems,
)
from tidelog.monitor.snapshot import BrokerTold, ClusterSnapshot, NodeTold, ProcessSeen
from tidelog.node.inspection.metrics import UNCLEAN_ELECTION
from tidelog.observe.metrics import Metric, exposition

NOW_MS = 1_800_000_000_000
BROKERS = (100, 101, 102)


def partition(leader: int = 100, isr: tuple[int, ...] = BROKERS, **more: Any) -> PartitionView:
    return PartitionView(0, leader, 1, BROKERS, isr, (), ErrorCode.none)._replace(**more)


def broker(node_id: int, *, fenced: bool = False) -> BrokerEntry:
    return BrokerEntry(node_id, "127.0.0.1", 9000 + node_id, None, fenced)


def quorum(*silent: int) -> QuorumDescription:
    voters = tuple(
        QuorumMember(each, ZERO_UUID, 5, NOW_MS - (60_000 if each in silent else 100))
        for each in BROKERS
    )
    return QuorumDescription(100, 3, 5, voters, (), {})


def node(node_id: int, **more: Any) -> NodeTold:
    told = NodeTold(f"http://127.0.0.1:{node_id}", node_id, state={"cluster_id": "c"})
    return told._replace(**more)


WELL = ClusterSnapshot(
    at_ms=NOW_MS,
    cluster_id="c",
    quorum=quorum(),
    no_controller=None,
    brokers=tuple(map(broker, BROKERS)),
    told={each: BrokerTold(usable_bytes=10**12) for each in BROKERS},
    partitions={TopicPartition("orders", index): partition() for index in range(5)},
    adding={},
    min_in_sync={"orders": 2},
    nodes=tuple(map(node, BROKERS)),
    processes={each: ProcessSeen("running") for each in BROKERS},
)
FIRST = TopicPartition("orders", 0)


def with_first(view: PartitionView, **more: Any) -> ClusterSnapshot:
    return WELL._replace(partitions={**WELL.partitions, FIRST: view}, **more)


def only(seen: ClusterSnapshot) -> Problem:
    (found,) = problems(seen)
    return found


def test_a_cluster_without_a_problem_says_what_it_has() -> None:
    assert problems(WELL) == []
    assert all_is_well(WELL) == "all is well: 3 brokers, 5 partitions, quorum of 3"


def test_a_cluster_that_tells_only_what_kafka_tells_can_be_well() -> None:
    bare = WELL._replace(nodes=(), processes={}, quorum=None, min_in_sync={}, told={})

    assert problems(bare) == []
    assert all_is_well(bare) == "all is well: 3 brokers, 5 partitions"


def test_without_a_controller_nothing_is_worse() -> None:
    seen = with_first(partition(-1, ()), quorum=None, no_controller="1 of 3 controllers runs")

    first, second = problems(seen)

    assert (first.severity, first.kind) == (Severity.CRITICAL, "no-controller")
    assert first.what == "nothing can be decided: 1 of 3 controllers runs"
    assert "`tidelog up`" in first.remedy
    assert second.kind == "offline-partitions"


def test_a_voter_that_is_not_heard_leaves_the_quorum_with_nobody_to_spare() -> None:
    found = only(WELL._replace(quorum=quorum(102)))

    assert found.what == (
        "2 of 3 controllers take part, 102 not: with one less nothing can be decided"
    )


@pytest.mark.parametrize(
    ("caught_up_ms", "said"),
    [
        (NOW_MS - 60_000, "controller 102 is 3 records behind in the metadata log, for 59 s"),
        (-1, "controller 102 is 3 records behind in the metadata log"),
        (NOW_MS - 500, None),
    ],
    ids=["for long", "never caught up", "for a moment"],
)
def test_a_voter_that_is_heard_and_lags_is_named(caught_up_ms: int, said: str | None) -> None:
    *others, last = quorum().voters
    behind = last._replace(end_offset=2, last_caught_up_ms=caught_up_ms)
    seen = WELL._replace(quorum=quorum()._replace(voters=(*others, behind)))

    assert [each.what for each in problems(seen)] == [said] * (said is not None)


def test_a_partition_without_a_leader_names_who_could_lead_it() -> None:
    stopped = {**WELL.processes, 101: ProcessSeen("stopped", "killed: SIGKILL")}
    seen = with_first(
        partition(-1, (101,)),
        processes=stopped,
        brokers=(broker(100), broker(101, fenced=True), broker(102)),
    )

    found = problems(seen)

    assert [each.kind for each in found] == [
        "offline-partitions",
        "controllers-missing",
        "fenced-broker",
    ]
    assert found[0].what == "orders-0 has no leader that answers: nobody can read or write there"
    assert found[0].remedy == ("`tidelog node start 101`; `tidelog why orders-0` tells how it came")


def test_a_leader_that_is_fenced_leads_nothing() -> None:
    brokers = (broker(100, fenced=True), broker(101), broker(102))

    kinds = {each.kind: each for each in problems(WELL._replace(brokers=brokers))}

    assert len(kinds["offline-partitions"].partitions) == 5
    assert "5 partitions (orders-0, orders-1, orders-2, …) have" in kinds["offline-partitions"].what


def test_a_leader_that_nobody_can_depose_and_that_does_not_answer_leads_nothing() -> None:
    stopped = {**WELL.processes, 100: ProcessSeen("stopped", "killed: SIGKILL")}
    seen = WELL._replace(quorum=None, no_controller="1 of 3 runs", processes=stopped)

    found = problems(seen)

    assert [each.kind for each in found] == ["no-controller", "offline-partitions", "node-down"]
    assert "`tidelog node start 100`" in found[1].remedy


def test_too_few_in_sync_replicas_are_told_as_refused_writes_and_not_twice() -> None:
    found = only(with_first(partition(isr=(100,))))

    assert (found.severity, found.kind) == (Severity.SERIOUS, "under-min-isr")
    assert "acks=all is refused" in found.what


def test_a_topic_with_fewer_replicas_than_min_isr_needs_only_those_it_has() -> None:
    assert problems(with_first(partition(replicas=(100,), isr=(100,)))) == []


def test_missing_replicas_are_told_with_their_broker() -> None:
    found = only(with_first(partition(isr=(100, 102))))

    assert found.severity is Severity.DEGRADED
    assert found.what == "orders-0 has replicas that are not in sync, on broker 101"
    assert as_object(found)["partitions"] == ["orders-0"]


def test_a_cluster_that_keeps_no_events_is_not_asked_for_them() -> None:
    bare = with_first(partition(isr=(100, 102)), nodes=(), processes={})

    assert only(bare).remedy.endswith("; `tidelog topics describe orders` tells more")


def test_a_replica_on_its_way_is_not_missed() -> None:
    assert problems(with_first(partition(isr=(100, 102)), adding={FIRST: (101,)})) == []


def test_a_fenced_broker_is_told_once_with_what_became_of_its_process() -> None:
    seen = WELL._replace(
        brokers=(broker(100), broker(101, fenced=True), broker(102)),
        nodes=(node(100), node(101, silent="connection refused", state=None), node(102)),
        processes={**WELL.processes, 101: ProcessSeen("stopped", "failed: the disk is full")},
        quorum=None,
    )

    found = only(seen)

    assert found.what == (
        "broker 101 is fenced: its process does not run (failed: the disk is full)"
    )
    assert found.remedy == "`tidelog node start 101`"


def test_a_paused_process_is_resumed() -> None:
    seen = WELL._replace(
        processes={**WELL.processes, 101: ProcessSeen("paused")},
        nodes=(node(100), node(101, silent="does not answer in time", state=None), node(102)),
        told={**WELL.told, 101: BrokerTold(silent="does not answer")},
        quorum=None,
    )

    found = only(seen)

    assert (found.kind, found.remedy) == ("node-down", "`tidelog node resume 101`")


def test_a_broker_that_counts_as_alive_and_says_nothing_is_named() -> None:
    led_by_100 = {FIRST: partition()}
    silent = {**WELL.told, 101: BrokerTold(silent="cannot reach it")}

    found = only(WELL._replace(told=silent, partitions=led_by_100))

    assert (found.kind, found.node) == ("silent-broker", 101)


def test_a_failed_directory_is_told_with_the_reason_of_its_node() -> None:
    directories = [{"path": "/data", "offline": "EIO"}, {"path": "/more", "offline": None}]
    state = {"cluster_id": "c", "directories": directories}
    seen = WELL._replace(
        told={**WELL.told, 101: BrokerTold(failed_directories=("/data",))},
        nodes=(node(100), node(101, state=state), node(102)),
    )

    assert only(seen).what == "log directory /data of broker 101 is offline: EIO"
    assert "does not serve" in only(seen._replace(nodes=())).what


@pytest.mark.parametrize(("ago_ms", "told"), [(60_000, True), (UNCLEAN_TOLD_FOR_MS + 1, False)])
def test_an_unclean_election_is_told_for_a_day_with_what_it_may_have_lost(
    ago_ms: int, told: bool
) -> None:
    values = [
        (("orders", "0", "7", 'up to "3" records'), (NOW_MS - ago_ms) / 1000),
        (("orders", "0", "5", "an older one"), (NOW_MS - ago_ms) / 1000 - 50),
    ]
    metrics = read_metrics(exposition([Metric(UNCLEAN_ELECTION, values)]))
    seen = WELL._replace(nodes=(node(100, metrics=metrics), node(101, metrics=metrics)))

    found = problems(seen)

    assert [each.kind for each in found] == ["unclean-election"] * told
    assert not told or 'in epoch 7; it may have lost up to "3" records' in found[0].what


def test_a_clock_that_is_far_off_is_named_unless_the_answer_took_as_long() -> None:
    off = (node(100), node(101, clock_ahead_ms=-42_000), node(102, clock_ahead_ms=20))

    assert only(WELL._replace(nodes=off)).what == (
        "the clock of node 101 is 42.0 s behind the others"
    )
    slow = (node(100), node(101, clock_ahead_ms=1500, clock_unsure_ms=900), node(102))
    assert problems(WELL._replace(nodes=slow)) == []


def test_what_nodes_say_over_http_counts() -> None:
    nodes = (
        node(100, problems=("the node is stopping: SIGTERM",)),
        node(101, state={"cluster_id": "other"}),
        NodeTold("http://10.0.0.1:8080", None, "connection refused"),
    )

    assert [each.kind for each in problems(WELL._replace(nodes=nodes))] == [
        "unhealthy-node",
        "other-cluster",
        "silent-listener",
    ]


def test_a_disk_with_little_room_is_told_before_it_is_full() -> None:
    told = {**WELL.told, 102: BrokerTold(usable_bytes=LITTLE_ROOM_BYTES - 1)}

    assert only(WELL._replace(told=told)).what == "broker 102 has 500 MB left on its disks"
