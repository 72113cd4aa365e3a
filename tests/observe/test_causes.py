"""Stories of partitions: from handmade events, and from what nodes announce in the simulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tidelog.model.ids import TopicPartition
from tidelog.node.core.effects import Announce
from tidelog.observe.causes import Explanation, Step, causes_of, explain
from tidelog.observe.told_event import ToldEvent, told
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.transcript import Stage, replay
from tidelog.simulator.scenarios import scenario_text
from tidelog.simulator.world.happenings import Happening, Started, Stepped
from tidelog.simulator.world.world import World

ORDERS = TopicPartition("orders", 0)
OF_ORDERS: dict[str, Any] = {"topic": "orders", "partition": 0}


class Journals(Stage):
    """A stage on which every node's events are kept."""

    def __init__(self) -> None:
        self.events: list[ToldEvent] = []

    def build_world(self, plan: Plan, reader: Callable[[str], None]) -> World:
        world = super().build_world(plan, reader)
        world.observers.append(self._note)
        return world

    def _note(self, world: World, happening: Happening) -> None:
        if isinstance(happening, Started | Stepped):
            for effect in happening.effects:
                if isinstance(effect, Announce):
                    at_ms = world.timeline.now_us // 1000
                    number = len(self.events) + 1
                    self.events.append(told(effect.event, happening.machine.node_id, at_ms, number))


def events_of(scenario: str) -> list[ToldEvent]:
    journals = Journals()
    replay(scenario_text(scenario), journals)
    return journals.events


def sentences(explained: Explanation) -> list[str]:
    return [f"{step.what}: {step.cause}" for step in explained.steps]


def in_this_order(wanted: list[str], found: list[str]) -> bool:
    """Whether sentences that begin so stand there in this order, among others."""
    left = iter(found)
    return all(any(line.startswith(beginning) for line in left) for beginning in wanted)


def event(at_ms: int, kind: str, node: int = 102, **fields: Any) -> ToldEvent:
    return ToldEvent(at_ms, node, at_ms, kind, {"cause": "", **fields})


def created(at_ms: int = 0, topic: str = "orders") -> ToldEvent:
    return event(
        at_ms,
        "TopicCreated",
        topic=topic,
        topic_id="H5sTgLNAQFW5Wx_O1qRkBw",
        partitions=1,
        replication_factor=3,
    )


def leads(at_ms: int, node: int, epoch: int) -> ToldEvent:
    return event(
        at_ms, "PartitionBecameLeader", node, **OF_ORDERS, leader_epoch=epoch, start_offset=5
    )


def in_sync(at_ms: int, before: list[int], after: list[int], cause: str = "") -> ToldEvent:
    return event(
        at_ms,
        "InSyncReplicasDecided",
        **OF_ORDERS,
        in_sync=after,
        in_sync_before=before,
        eligible=[],
        cause=cause,
    )


def elected(at_ms: int, before: int, after: int, epoch: int) -> ToldEvent:
    return event(
        at_ms,
        "LeaderElected",
        **OF_ORDERS,
        leader=after,
        leader_before=before,
        leader_epoch=epoch,
        unclean=False,
        unclean_elections=0,
        may_lose="",
    )


def of_broker(at_ms: int, kind: str, broker: int, cause: str = "") -> ToldEvent:
    return event(at_ms, kind, broker_id=broker, broker_epoch=1, cause=cause)


def a_kill(at_ms: int, epoch: int = 1) -> list[ToldEvent]:
    """101 goes, 100 follows it."""
    return [
        of_broker(at_ms, "BrokerFenced", 101, "no heartbeat for 9000 ms"),
        in_sync(at_ms, [101, 100, 102], [100, 102]),
        elected(at_ms, 101, 100, epoch),
        leads(at_ms + 5, 100, epoch),
    ]


def a_return(at_ms: int) -> list[ToldEvent]:
    return [
        of_broker(at_ms, "BrokerRegistered", 101),
        of_broker(at_ms + 10, "BrokerUnfenced", 101),
        in_sync(at_ms + 20, [100, 102], [101, 100, 102]),
    ]


def test_a_partition_to_which_nothing_happened_is_as_it_was_created() -> None:
    explained = explain(ORDERS, [leads(10, 101, 0), created()])

    assert explained.summary == (
        "orders-0 is led by 101 in epoch 0; all replicas are in sync, as when it was created"
    )
    assert [step.at_ms for step in explained.steps] == [0, 10]


def test_a_killed_leader_is_told_from_its_end_to_the_next_leader() -> None:
    events = [created(), leads(10, 101, 0), *a_kill(1000)]

    explained = explain(ORDERS, events, {101: "killed: SIGKILL", 100: "of no interest"})

    assert explained.summary == "orders-0 is led by 100 in epoch 1; in sync: 100, 102"
    assert sentences(explained) == [
        "the process of node 101 ended: killed: SIGKILL",
        "broker 101 of epoch 1 fenced: no heartbeat for 9000 ms",
        "orders-0 in sync: 100, 102 after 101, 100, 102: ",
        "orders-0 is led by 100 in epoch 1 after 101: ",
        "node 100 leads in epoch 1 from offset 5: ",
    ]


def test_what_is_over_and_explains_nothing_of_the_present_is_left_out() -> None:
    earlier = [created(), *a_kill(1000), *a_return(2000), elected(3000, 100, 101, 2)]

    explained = explain(ORDERS, [*earlier, *a_kill(9000, epoch=3)])

    assert [step.at_ms for step in explained.steps] == [9000, 9000, 9000, 9005]


def test_a_leader_that_was_moved_back_is_explained_by_why_it_had_to_go() -> None:
    events = [created(), *a_kill(1000), *a_return(2000), elected(3000, 100, 101, 2)]

    explained = explain(ORDERS, events)

    assert (explained.leader, explained.leader_epoch) == (101, 2)
    assert in_this_order(
        [
            "broker 101 of epoch 1 fenced",
            "orders-0 is led by 100",
            "broker 101 registered",
            "orders-0 in sync: 101, 100, 102",
            "orders-0 is led by 101 in epoch 2 after 100",
        ],
        sentences(explained),
    )


def test_a_stop_and_a_failed_disk_are_told_where_they_began() -> None:
    stop = event(900, "NodeStopped", 101, clean=True, cause="SIGTERM")
    asked = of_broker(800, "BrokerShuttingDown", 101)
    of_another = event(850, "LogDirectoryOffline", 100, directory="/data", cause="EIO")

    explained = explain(ORDERS, [created(), asked, of_another, stop, *a_kill(1000)])

    assert [step.at_ms for step in explained.steps][:2] == [800, 850]
    assert "node 101 stopped cleanly: SIGTERM" in sentences(explained)


def test_a_topic_of_the_same_name_before_is_another_story() -> None:
    deleted = event(1500, "TopicDeleted", topic="orders", topic_id="H5sTgLNAQFW5Wx_O1qRkBw")
    events = [created(), *a_kill(1000), deleted, created(2000), leads(2010, 102, 0)]

    explained = explain(ORDERS, events)

    assert (explained.leader, explained.in_sync) == (102, None)
    assert [step.at_ms for step in explained.steps] == [2000, 2010]


def test_events_of_others_are_no_part_of_it() -> None:
    other = of_broker(1002, "BrokerFenced", 105)
    elsewhere = event(
        1001, "LogTruncated", topic="t", partition=0, end_offset_before=2, end_offset=1
    )

    told_with = explain(ORDERS, [created(), other, elsewhere, *a_kill(1000)])

    assert sentences(told_with) == sentences(explain(ORDERS, [created(), *a_kill(1000)]))


def test_without_any_event_nothing_is_claimed() -> None:
    assert explain(ORDERS, []).summary == "orders-0: no event tells who leads it"


def test_the_worked_example_is_told_until_101_leads_again() -> None:
    explained = explain(ORDERS, events_of("worked_example"))

    assert explained.leader == 101
    assert set(explained.in_sync or ()) == {100, 101, 102}
    assert in_this_order(
        [
            "broker 101 of epoch",
            "orders-0 is led by 100 in epoch 2 after 101",
            "node 100 leads in epoch 2 from offset 3",
            "node 102: orders-0 truncated from 5 to 3",
            "node 101: orders-0 truncated from 5 to 3",
            "orders-0 in sync: 101, 100, 102",
            "orders-0 is led by 101 in epoch 3 after 100",
        ],
        sentences(explained),
    )


def test_a_slow_follower_is_told_with_how_slow_it_was() -> None:
    events = events_of("unclean_election")

    explained = explain(TopicPartition("spool", 0), events)

    shrunk = next(line for line in sentences(explained) if "drops 102 from the ISR" in line)
    assert "102 is at 1 of 2 and was last caught up" in shrunk
    assert any("unclean: " in line for line in sentences(explained))


def test_every_story_of_the_simulator_ends_with_the_leader_of_the_last_epoch() -> None:
    for scenario in ("controller_takeover", "leader_balance", "slow_follower_leaves_and_rejoins"):
        events = events_of(scenario)
        names = {each.partition for each in events if each.kind == "PartitionBecameLeader"}
        for name in names - {None}:
            assert name is not None
            explained = explain(name, events)
            times = [step.at_ms for step in explained.steps if step.at_ms is not None]
            assert times == sorted(times) and times
            last = max(
                (each.fields["leader_epoch"], each.node)
                for each in events
                if each.kind == "PartitionBecameLeader" and each.partition == name
            )
            assert (explained.leader_epoch, explained.leader) == last


def kinds(steps: list[Step]) -> list[str | None]:
    """What the steps are made from; None is the end of a process."""
    return [None if step.event is None else step.event.kind for step in steps]


def test_an_election_came_from_the_fence_and_what_was_decided_before_it() -> None:
    events = [created(), leads(10, 101, 0), *a_kill(1000), *a_return(5000)]
    (election,) = [each for each in events if each.kind == "LeaderElected"]

    steps = causes_of(election, events)

    assert kinds(steps) == ["BrokerFenced", "InSyncReplicasDecided", "LeaderElected"]
    assert steps[-1].event == election


def test_what_happened_later_is_no_cause() -> None:
    events = [created(), leads(10, 101, 0), *a_kill(1000), *a_return(5000), *a_kill(9000, 2)]
    first = events[2]

    assert kinds(causes_of(first, events)) == ["BrokerFenced"]


def test_a_broker_that_takes_part_again_was_away_for_a_reason() -> None:
    start = [of_broker(5, "BrokerRegistered", 101), of_broker(6, "BrokerUnfenced", 101)]
    stopped = event(990, "NodeStopped", 101, clean=True)
    events = [*start, stopped, *a_kill(1000), *a_return(5000)]
    started = event(5020, "NodeStarted", 101)
    events.append(started)

    assert kinds(causes_of(started, events)) == [
        "NodeStopped", "BrokerFenced", "BrokerRegistered", "BrokerUnfenced", "NodeStarted",
    ]  # fmt: skip
    assert kinds(causes_of(start[1], events)) == ["BrokerRegistered", "BrokerUnfenced"]


def test_the_end_of_a_process_is_told_before_its_fence_unless_it_ended_later() -> None:
    killed = {101: "killed: SIGKILL"}
    away = [of_broker(6, "BrokerUnfenced", 101), *a_kill(1000)]
    fence = away[1]

    assert kinds(causes_of(fence, away, killed)) == [None, "BrokerFenced"]
    assert kinds(causes_of(fence, [*away, *a_return(5000)], killed)) == ["BrokerFenced"]


def test_a_controller_took_over_because_another_one_went() -> None:
    first = event(10, "ControllerActivated", 100, epoch=1)
    gone = event(995, "NodeStopped", 100, clean=False)
    missed = event(1000, "ControllerMissing", 101)
    second = event(1200, "ControllerActivated", 102, epoch=2)
    other = event(1100, "NodeStopped", 101, clean=True)

    steps = causes_of(second, [first, gone, missed, other, second])

    assert kinds(steps) == ["NodeStopped", "ControllerMissing", "ControllerActivated"]


def test_an_event_that_stands_for_itself_is_told_with_its_own_cause() -> None:
    alone = event(10, "ConnectionRefused", peer="x", cause="too many")

    (step,) = causes_of(alone, [*a_kill(5), alone])

    assert (step.event, step.cause) == (alone, "too many")
