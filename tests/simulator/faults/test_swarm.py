"""Drawing runs from seeds."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from random import Random

from tidelog.simulator.clients.shifts import Bursts, has_silences
from tidelog.simulator.faults.faults import (
    Depose,
    FailDisk,
    Fault,
    RestoreDisk,
    Wipe,
    WipeDirectory,
)
from tidelog.simulator.faults.swarm import (
    DIRECTORIES,
    QUIET_MS,
    QUORUMS,
    draw_plan,
    is_undisturbed,
)
from tidelog.simulator.run.plan import Plan

PLANS = [draw_plan(seed) for seed in range(200)]


def test_equal_seeds_draw_equal_plans_and_others_do_not() -> None:
    assert draw_plan(5) == draw_plan(5)
    assert len({plan.faults for plan in PLANS if plan.faults}) > 180


def test_in_some_runs_nothing_is_wrong_but_long_silences() -> None:
    for seed, plan in enumerate(PLANS):
        assert bool(plan.faults) != is_undisturbed(seed)
        if is_undisturbed(seed):
            assert plan.dead == ()
            assert has_silences(seed)
    assert sum(is_undisturbed(seed) for seed in range(200)) >= 10


def test_a_silence_is_longer_than_followers_may_lag_and_ends_with_a_burst() -> None:
    for seed in range(20):
        bursts = Bursts(Random(seed), 1_500, 20_000)
        silent = [bursts.silence_ms(now_ms) > 0 for now_ms in range(20_000)]
        lengths = [len(list(each)) for is_silent, each in groupby(silent) if is_silent]
        assert len(lengths) >= 4
        assert all(length > 1_500 for length in lengths[:-1])
        assert bursts.silence_ms(20_000) == 0


def test_each_run_has_its_own_mix_and_all_runs_together_have_everything() -> None:
    mixes = [frozenset(type(timed.fault) for timed in plan.faults) for plan in PLANS]
    seen: Counter[type[Fault]] = Counter(kind for mix in mixes for kind in mix)

    assert len(seen) == 21
    assert all(10 <= count <= 195 for count in seen.values())
    assert len(set(mixes)) > 100


def test_faults_strike_in_order_and_within_their_time() -> None:
    for plan in PLANS:
        moments = [timed.at_ms for timed in plan.faults]
        assert moments == sorted(moments)
        assert all(QUIET_MS <= moment < plan.faults_ms for moment in moments)


def lost_disks(plan: Plan, *kinds: type[Wipe] | type[RestoreDisk]) -> set[int]:
    return {timed.fault.node for timed in plan.faults if isinstance(timed.fault, kinds)}


def test_the_only_controller_keeps_its_disk() -> None:
    plans = [draw_plan(seed, controllers=1) for seed in range(100)]
    lost = set[int]().union(*(lost_disks(plan, Wipe, RestoreDisk) for plan in plans))

    assert lost == {101, 102}


def test_voters_may_get_a_blank_disk_but_never_an_older_one() -> None:
    quorums = [plan for plan in PLANS if plan.controllers > 1]

    assert any(lost_disks(plan, Wipe) & {*plan.controller_ids} for plan in quorums)
    assert any(lost_disks(plan, RestoreDisk) for plan in quorums)
    assert not any(lost_disks(plan, RestoreDisk) & {*plan.controller_ids} for plan in quorums)


def test_most_runs_have_a_quorum_and_some_have_controllers_of_their_own() -> None:
    kinds = Counter((plan.controllers, plan.separate) for plan in PLANS)

    assert set(kinds) == set(QUORUMS)
    assert kinds[3, False] > kinds[3, True] > 20 and kinds[1, False] > 20


def test_only_quorums_have_leaders_to_depose() -> None:
    assert {
        plan.controllers
        for plan in PLANS
        for timed in plan.faults
        if isinstance(timed.fault, Depose)
    } == {3}


def test_some_runs_have_several_directories_and_faults_of_one_of_them() -> None:
    counts = Counter(plan.directories for plan in PLANS)
    assert set(counts) == set(DIRECTORIES)
    assert counts[1] > counts[2] > 20 and counts[3] > 20
    struck = {
        (plan.directories, fault.path if isinstance(fault, WipeDirectory) else fault.part)
        for plan in PLANS
        for _, fault in plan.faults
        if isinstance(fault, WipeDirectory | FailDisk)
    }
    assert struck == {
        *((directories, "") for directories in DIRECTORIES),
        *((2, path) for path in ("/disk1", "/disk1/")),
        *((3, path) for path in ("/disk1", "/disk1/", "/disk2", "/disk2/")),
    }


def test_the_number_of_directories_can_be_given_and_changes_nothing_else() -> None:
    narrow = [draw_plan(seed, directories=1) for seed in range(30)]
    assert all(plan == narrow[plan.seed] for plan in PLANS[:30] if plan.directories == 1)
    assert {draw_plan(seed, directories=3).directories for seed in range(30)} == {3}


def test_a_single_node_loses_nothing() -> None:
    plans = [draw_plan(seed, brokers=1) for seed in range(50)]

    assert {plan.loss_budget for plan in plans} == {0}
    assert {plan.dead for plan in plans} == {()}
    assert not any(isinstance(timed.fault, Wipe) for plan in plans for timed in plan.faults)
