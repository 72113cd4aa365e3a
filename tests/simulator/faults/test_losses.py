"""How much may be lost at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.simulator.faults.faults import (
    Damage,
    FailDisk,
    Kill,
    KillBeforeEffects,
    PowerCut,
    Start,
    Stop,
    Wipe,
)
from tidelog.simulator.world.world import World


@pytest.fixture
def world(make_world: Callable[..., World], talker: Callable[..., Any]) -> World:
    """Three nodes with a topic on all of them."""
    world = make_world(brokers=3)
    world.add_client(admin := talker())
    admin.create(replicas=3)
    for number in range(5):
        admin.produce(b"%d" % number)
    world.run_for(4_000)
    assert all(world.is_whole(machine) for machine in world.machines.values())
    return world


def lossy(world: World) -> list[int]:
    return [machine.node_id for machine in world.machines.values() if machine.lossy]


def test_one_machine_at_a_time_loses_data(world: World) -> None:
    world.inject(PowerCut(node=101, fate="lost"))
    world.inject(Start(node=101))
    world.run_for(1)
    world.inject(Wipe(node=102))
    assert lossy(world) == [101]

    world.run_for(60_000)
    assert lossy(world) == []
    world.inject(Wipe(node=102))

    assert lossy(world) == [102]


def test_nobody_else_dies_until_the_loss_is_noticed(world: World) -> None:
    world.inject(PowerCut(node=101, fate="lost"))
    world.inject(Kill(node=102))
    world.inject(FailDisk(node=100, how="full"))
    world.run_for(1_000)
    assert world.machines[102].process is not None
    assert world.machines[100].process is not None

    world.inject(Start(node=101))
    world.run_for(20_000)
    world.inject(Kill(node=102))

    assert world.machines[102].process is None


@pytest.mark.parametrize(
    "doom", [KillBeforeEffects(node=102), Kill(node=102, after=9), Kill(node=102)]
)
def test_nothing_is_lost_while_somebody_else_is_down_or_about_to_be(
    world: World, doom: Kill | KillBeforeEffects
) -> None:
    world.inject(doom)
    world.inject(PowerCut(node=101, fate="lost"))

    assert not world.machines[101].powered
    assert lossy(world) == []


def test_a_clean_stop_is_always_allowed(world: World) -> None:
    world.inject(PowerCut(node=101, fate="lost"))
    world.inject(Stop(node=102))
    world.run_for(30_000)

    assert world.machines[102].process is None


def test_damage_counts_as_a_loss_until_the_disk_is_replaced(world: World) -> None:
    world.inject(Damage(node=102, kind="log", draw=1))
    assert lossy(world) == [102]
    world.inject(PowerCut(node=101, fate="lost"))
    world.run_for(60_000)
    assert lossy(world) == [102]

    world.inject(Wipe(node=102))
    world.inject(Start(node=102))
    world.run_for(60_000)

    assert lossy(world) == []


def test_a_node_that_the_others_can_do_without_may_die_for_good(world: World) -> None:
    world.calm()
    world.bury((102,))

    assert world.plan.dead == (102,)
    assert world.machines[102].process is None


def test_the_last_one_in_sync_does_not_die_for_good(world: World) -> None:
    world.inject(Kill(node=101))
    world.inject(Kill(node=102))
    world.bury((100,))

    assert world.plan.dead == ()
    assert world.machines[100].process is not None
