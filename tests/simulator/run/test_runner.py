"""Running plans, reducing failures, telling people."""

from __future__ import annotations

from tidelog.simulator.faults.faults import JumpClock, Kill, Pause, Resume, Start, TimedFault
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.minimise import minimise
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.report import as_json, failure_lines, seed_line, summary
from tidelog.simulator.run.runner import run_plan, run_seed
from tidelog.simulator.run.setup import standard_setup
from tidelog.simulator.world.happenings import Happening, Struck
from tidelog.simulator.world.world import World

FAULTS = (
    TimedFault(3_000, JumpClock(node=100, by_ms=5)),
    TimedFault(3_500, Pause(node=100)),
    TimedFault(4_000, Resume(node=100)),
    TimedFault(5_000, Kill(node=100)),
    TimedFault(5_500, Start(node=100)),
    TimedFault(6_000, JumpClock(node=100, by_ms=7)),
    TimedFault(6_500, JumpClock(node=100, by_ms=9)),
)
PLAN = Plan(seed=1, brokers=1, faults=FAULTS, faults_ms=8_000)


def afraid_of_pause_then_kill(world: World) -> None:
    """A rule that is broken by a kill that follows a pause."""
    struck: list[type[object]] = []

    def look(_world: World, happening: Happening) -> None:
        if isinstance(happening, Struck):
            struck.append(type(happening.fault))
            if struck[-1] is Kill and Pause in struck:
                raise Violation("D99", "killed after a pause")

    world.observers.append(look)


def test_a_run_without_a_violation_ends_well() -> None:
    result = run_plan(PLAN, setup=standard_setup)

    assert result.violation is None
    assert result.simulated_ms >= 8_000
    assert result.steps > 50
    assert result.tail == ()


def test_equal_plans_run_equally_and_other_seeds_do_not() -> None:
    assert run_seed(4, brokers=1).hash == run_seed(4, brokers=1).hash
    assert run_seed(4, brokers=1).hash != run_seed(5, brokers=1).hash


def test_a_reader_hears_every_line_of_the_trace() -> None:
    lines: list[str] = []

    result = run_plan(PLAN, reader=lines.append)

    assert len(lines) > result.steps
    assert lines[0].split() == ["0.000000", "100", "starts"]
    assert run_plan(PLAN).hash == result.hash


def test_a_violation_ends_the_run_and_is_reduced_to_the_faults_it_needs() -> None:
    result = run_plan(PLAN, setup=afraid_of_pause_then_kill)
    assert result.violation is not None
    assert result.simulated_ms == 5_000

    reduced = minimise(result, setup=afraid_of_pause_then_kill)

    assert [type(timed.fault) for timed in reduced.plan.faults] == [Pause, Kill]
    assert reduced.violation is not None and reduced.violation.rule == "D99"


def test_a_run_that_ended_well_is_not_reduced() -> None:
    result = run_plan(PLAN)

    assert minimise(result) is result


def test_a_failure_is_told_with_its_faults_its_end_and_how_to_see_it_again() -> None:
    result = run_plan(PLAN, setup=afraid_of_pause_then_kill)
    reduced = minimise(result, setup=afraid_of_pause_then_kill)

    lines = list(failure_lines(reduced, len(FAULTS), "tidelog sim --seed 1"))

    assert lines[0] == "D99 broken at 5.000 s: killed after a pause"
    assert "faults that are needed: 2 of 7" in lines
    assert "  at 3500 pause node=100" in lines
    assert any("VIOLATION" in line for line in lines)
    assert lines[-1] == "replay: tidelog sim --seed 1"


def test_runs_are_summed_up() -> None:
    good, bad = run_plan(PLAN), run_plan(PLAN, setup=afraid_of_pause_then_kill)

    assert seed_line(good).endswith("well")
    assert seed_line(bad).endswith("D99: killed after a pause")
    assert summary([good, bad], 0.5).startswith("2 seeds, 1 of 2 failed; 0.00 simulated hours")
    assert as_json(good)["violation"] is None
    assert as_json(bad)["violation"] == {"rule": "D99", "why": "killed after a pause"}
