"""A world: clients, observers, moments, expectations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.node.core.inputs import FrameArrived
from tidelog.records.record import records_of
from tidelog.simulator.faults.faults import Kill
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.world.happenings import (
    ClientActed,
    Died,
    Happening,
    Started,
    Stepped,
    Struck,
)
from tidelog.simulator.world.world import World


def test_a_client_creates_a_topic_writes_and_reads(
    make_world: Callable[..., World], talker: Callable[..., Any]
) -> None:
    world = make_world()
    client = talker()
    world.add_client(client)

    client.create()
    client.produce(b"one", b"two")
    client.fetch(0)
    world.run_for(1_000)

    created, produced, fetched = client.answers
    assert [topic.error_code.name for topic in created.topics] == ["none"]
    assert produced.topics[0].partitions[0][1:3] == (0, 0)
    records = fetched.topics[0].partitions[0].records
    assert [record.value for record in records_of(records)] == [b"one", b"two"]


def test_observers_hear_of_starts_steps_clients_faults_and_deaths(
    make_world: Callable[..., World], talker: Callable[..., Any]
) -> None:
    world = World(Plan(seed=3, brokers=1))
    heard: list[Happening] = []
    world.observers.append(lambda _world, happening: heard.append(happening))
    world.add_client(client := talker())
    world.start()
    world.run_for(500)
    client.create()
    world.run_for(500)
    world.inject(Kill(node=100))

    kinds = {type(happening) for happening in heard}
    assert kinds == {Started, Stepped, ClientActed, Struck, Died}
    assert any(type(each) is Stepped and type(each.happened) is FrameArrived for each in heard)


def test_an_observer_sees_the_inside_of_the_node(make_world: Callable[..., World]) -> None:
    world = make_world()

    node = world.machines[100].node

    assert node is not None
    assert node.cluster.is_live(100)
    image = world.controller_image()
    assert image is not None and 100 in image.brokers


def test_an_action_happens_at_its_moment(make_world: Callable[..., World]) -> None:
    world = make_world()
    moments: list[int] = []

    world.at(1_500, lambda: moments.append(world.now_ms), "look")
    world.run_until(1_499)
    assert moments == []
    world.run_until(3_000)

    assert moments == [1_500]


def test_calm_lasts_until_every_expectation_is_met(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.inject(Kill(node=100))
    world.expect("L2", lambda: None if world.is_whole(world.machines[100]) else "down")

    world.calm()
    world.run_until_well(10_000)

    assert world.is_whole(world.machines[100])
    assert world.now_ms < 3_000


def test_an_expectation_that_is_never_met_is_a_violation(make_world: Callable[..., World]) -> None:
    world = make_world()
    world.expect("L9", lambda: "it never comes")

    with pytest.raises(Violation, match="it never comes") as found:
        world.run_until_well(2_000)

    assert found.value.rule == "L9"


def test_a_world_that_spins_is_stopped() -> None:
    world = World(Plan(seed=1, brokers=1, events_most=500))

    def spin() -> None:
        world.timeline.at(world.timeline.now_us, spin)

    world.timeline.at(0, spin)

    with pytest.raises(Violation, match="livelock"):
        world.run_until(1)


def test_what_a_node_raises_is_a_violation(make_world: Callable[..., World]) -> None:
    world = make_world()
    node = world.machines[100].node
    assert node is not None
    empty: dict[str, None] = {}
    node.rooms.base.runtime.deadlines.at(0, lambda now: empty["nothing"])

    with pytest.raises(Violation, match="100 raised KeyError"):
        world.run_for(2_000)
