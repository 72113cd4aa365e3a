"""Drawing runs from seeds."""

from __future__ import annotations

from collections import Counter

from tidelog.simulator.cluster import FIRST_NODE
from tidelog.simulator.faults import Fault, RestoreDisk, Wipe
from tidelog.simulator.swarm import QUIET_MS, draw_plan

PLANS = [draw_plan(seed) for seed in range(200)]


def test_equal_seeds_draw_equal_plans_and_others_do_not() -> None:
    assert draw_plan(5) == draw_plan(5)
    assert len({plan.faults for plan in PLANS}) > 190


def test_each_run_has_its_own_mix_and_all_runs_together_have_everything() -> None:
    mixes = [frozenset(type(timed.fault) for timed in plan.faults) for plan in PLANS]
    seen: Counter[type[Fault]] = Counter(kind for mix in mixes for kind in mix)

    assert len(seen) == 19
    assert all(10 <= count <= 195 for count in seen.values())
    assert len(set(mixes)) > 100


def test_faults_strike_in_order_and_within_their_time() -> None:
    for plan in PLANS:
        moments = [timed.at_ms for timed in plan.faults]
        assert moments == sorted(moments)
        assert all(QUIET_MS <= moment < plan.faults_ms for moment in moments)


def test_the_only_controller_keeps_its_disk() -> None:
    lost = [
        timed.fault.node
        for plan in PLANS
        for timed in plan.faults
        if isinstance(timed.fault, Wipe | RestoreDisk)
    ]

    assert lost and FIRST_NODE not in lost


def test_a_single_node_loses_nothing() -> None:
    plans = [draw_plan(seed, brokers=1) for seed in range(50)]

    assert {plan.loss_budget for plan in plans} == {0}
    assert {plan.dead for plan in plans} == {()}
    assert not any(isinstance(timed.fault, Wipe) for plan in plans for timed in plan.faults)
