"""Clusters with three controllers: nothing is lost whoever of them is, and somebody decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.controller.partition_image import PartitionImage
from tidelog.simulator.faults.faults import (
    CopyDisk,
    Cut,
    Depose,
    Kill,
    Mend,
    Pause,
    Reset,
    RestoreDisk,
    Start,
    Wipe,
)
from tidelog.simulator.rules.watch import watch_nodes
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.runner import run_seed
from tidelog.simulator.run.scenario_file import parse_plan, plan_text
from tidelog.simulator.run.setup import standard_setup
from tidelog.simulator.world.cluster import first_directory
from tidelog.simulator.world.paths import apart, one_way
from tidelog.simulator.world.world import World

pytestmark = pytest.mark.long


@pytest.mark.parametrize(("brokers", "controllers", "separate"), [(5, 3, False), (3, 5, True)])
def test_larger_quorums_are_well_after_all_faults(
    brokers: int, controllers: int, separate: bool
) -> None:
    result = run_seed(2, brokers=brokers, controllers=controllers, separate=separate)
    assert result.violation is None


def test_the_same_seed_goes_the_same_way() -> None:
    first, second = (run_seed(3, controllers=3, separate=True) for _ in range(2))
    assert first.hash == second.hash


@pytest.mark.parametrize("separate", [False, True])
def test_a_plan_remembers_who_votes(separate: bool) -> None:
    plan = Plan(seed=1, controllers=3, separate=separate)
    assert parse_plan(plan_text(plan)) == plan


def leader(world: World) -> int:
    [leading] = [
        machine.node_id
        for machine in world.machines.values()
        if machine.node is not None and machine.node.quorum.is_active
    ]
    return leading


def leader_besides(world: World, sleeper: int) -> int:
    """Who decides, while another one sleeps who thinks so too."""
    [leading] = [
        machine.node_id
        for machine in world.machines.values()
        if machine.node is not None and machine.node.quorum.is_active and machine.node_id != sleeper
    ]
    return leading


def test_any_of_three_takes_over() -> None:
    world = World(Plan(seed=5, controllers=3))
    standard_setup(world)
    world.start()
    world.run_for(4_000)
    led = set()
    for _ in range(6):
        before = leader(world)
        led.add(before)
        world.inject(Kill(node=before))
        world.run_for(1_500)
        assert leader(world) != before
        world.inject(Start(node=before))
        world.run_for(3_000)
    assert len(led) > 1


@pytest.fixture
def load(
    writer: Callable[..., Any], talker: Callable[..., Any]
) -> Callable[..., tuple[World, Any]]:
    """Makes three brokers with a topic that is written to, and three controllers beside them."""

    def make(**settings: str) -> tuple[World, Any]:
        given = {"min.insync.replicas": "2"}
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        world = World(Plan(seed=5, controllers=3, separate=True, settings=tuple(given.items())))
        watch_nodes(world)
        world.start()
        world.run_for(2_000)
        world.add_client(administrator := talker())
        administrator.create(replicas=3)
        world.run_for(500)
        world.add_client(writing := writer())
        world.run_for(1_500)
        assert len(writing.acknowledged) > 10
        return world, writing

    return make


def partition(world: World) -> PartitionImage:
    image = world.controller_image()
    found = None if image is None else image.partition("orders", 0)
    assert found is not None
    return found


def voters(world: World) -> list[tuple[int, bool]]:
    """Who votes, by the log of whoever leads, and whether that one still has the vote."""
    leading = world.quorum_leader()
    assert leading is not None and leading.node is not None
    return [
        (voter.voter_id, voter.voter_directory_id == world.machines[voter.voter_id].directory_id)
        for voter in leading.node.quorum.voters.voters
    ]


@pytest.mark.parametrize("lost", [Kill, Pause])
def test_writes_go_on_while_the_quorum_is_lost(
    load: Callable[..., tuple[World, Any]], lost: type[Kill] | type[Pause]
) -> None:
    world, writing = load()
    before = partition(world)
    leading = leader(world)
    for node in {leading, 200, 201}:
        world.inject(lost(node=node))
    world.run_for(1_000)
    written = len(writing.acknowledged)
    world.run_for(8_000)

    assert len(writing.acknowledged) > written + 80
    world.calm()
    world.run_for(5_000)
    assert partition(world) == before


def test_a_controller_that_wakes_up_late_decides_nothing(
    load: Callable[..., tuple[World, Any]],
) -> None:
    world, writing = load(broker_heartbeat_interval_ms="500", broker_session_timeout_ms="2000")
    sleeper = leader(world)
    world.inject(Depose(how="pause", for_ms=6_000))
    world.run_for(5_990)
    successor, before = leader_besides(world, sleeper), partition(world)
    world.run_for(4_000)

    assert leader(world) == successor != sleeper
    assert partition(world) == before
    written = len(writing.acknowledged)
    world.run_for(1_000)
    assert len(writing.acknowledged) > written


@pytest.mark.parametrize("apart_ms", [0, 600])
def test_a_false_alarm_costs_an_election_at_most(
    load: Callable[..., tuple[World, Any]], apart_ms: int
) -> None:
    world, writing = load(broker_disconnect_grace_ms="200")
    before = partition(world)
    others = [str(node) for node in world.plan.controller_ids]
    path = apart([str(before.leader)], others)
    world.inject(Cut(pairs=path))
    world.inject(Reset(pairs=one_way([str(before.leader)], others)))
    world.run_for(apart_ms)
    world.inject(Mend(pairs=path))
    world.run_for(5_000)

    after = partition(world)
    assert after.leader_epoch == before.leader_epoch + (apart_ms > 200)
    assert sorted(after.isr) == sorted(before.isr)
    written = len(writing.acknowledged)
    world.run_for(1_000)
    assert len(writing.acknowledged) > written


@pytest.mark.parametrize("joins", [False, True])
def test_a_voter_whose_disk_was_replaced_is_missed_or_votes_anew(
    load: Callable[..., tuple[World, Any]], joins: bool
) -> None:
    world, _ = load(controller_quorum_auto_join_enable=str(joins).lower())
    world.inject(Wipe(node=201))
    world.inject(Start(node=201))
    world.run_for(10_000)
    assert voters(world) == [(200, True), (201, joins), (202, True)]

    world.inject(Wipe(node=202))
    world.inject(Start(node=202))
    world.run_for(10_000)
    assert voters(world) == [(200, True), (201, joins), (202, True)]
    assert (world.machines[202].directory_id == first_directory(5, 202)) is not joins


def test_an_older_copy_of_a_voters_disk_is_not_put_in(
    load: Callable[..., tuple[World, Any]],
) -> None:
    world, _ = load()
    files = world.machines[201].disk.files
    world.inject(CopyDisk(node=201))
    world.run_for(1_000)
    world.inject(RestoreDisk(node=201))
    assert world.machines[201].node is None
    assert world.machines[201].disk.files is files
