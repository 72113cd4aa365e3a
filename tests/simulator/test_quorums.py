"""Clusters with three controllers: nothing is lost whoever of them is, and somebody decides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.roles import Unattached
from tidelog.simulator.faults import Kill, Start
from tidelog.simulator.plan import Plan
from tidelog.simulator.runner import run_seed
from tidelog.simulator.scenario_file import parse_plan, plan_text
from tidelog.simulator.setup import standard_setup
from tidelog.simulator.world import World


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_cluster_with_three_voters_is_well_after_all_faults(seed: int) -> None:
    assert run_seed(seed, controllers=3).violation is None


@pytest.mark.parametrize("seed", [1, 2])
def test_five_brokers_of_which_three_vote_are_well_after_all_faults(seed: int) -> None:
    assert run_seed(seed, brokers=5, controllers=3).violation is None


def test_the_same_seed_goes_the_same_way() -> None:
    assert run_seed(3, controllers=3).hash == run_seed(3, controllers=3).hash


def test_a_plan_remembers_how_many_vote() -> None:
    plan = Plan(seed=1, controllers=3)
    assert parse_plan(plan_text(plan)) == plan


def leader(world: World) -> int:
    [leading] = [
        machine.node_id
        for machine in world.machines.values()
        if machine.node is not None and machine.node.quorum.is_active
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
        world.strike(Kill(node=before))
        world.run_for(1_500)
        assert leader(world) != before
        world.strike(Start(node=before))
        world.run_for(3_000)
    assert len(led) > 1


def _commit_alone(leader: Leader) -> bool:
    """What this node has counts as committed, whoever else has it."""
    if leader.own_end <= leader.high_watermark:
        return False
    leader.high_watermark = leader.own_end
    return True


def _vote_for_anybody(_role: Unattached, _candidate: ReplicaKey) -> bool:
    return True


@pytest.mark.parametrize(
    ("owner", "guard", "broken"),
    [(Unattached, "grants_vote", _vote_for_anybody), (Leader, "_moved", _commit_alone)],
)
def test_a_missing_guard_is_noticed(
    monkeypatch: pytest.MonkeyPatch, owner: type[Any], guard: str, broken: Callable[..., Any]
) -> None:
    monkeypatch.setattr(owner, guard, broken)
    assert any(run_seed(seed, controllers=3).violation for seed in range(1, 30))
