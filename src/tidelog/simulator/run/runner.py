"""Running one seed or one plan from beginning to end.

Invariant  A run has two parts: faults strike while safety is watched; then everything is mended,
           and the cluster must become well again within a bound, in some runs once more after a
           node has died for good.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.simulator.faults.swarm import draw_plan
from tidelog.simulator.rules.violation import Violation
from tidelog.simulator.run.plan import Plan
from tidelog.simulator.run.setup import Setup, standard_setup
from tidelog.simulator.world.world import World


class SeedResult(NamedTuple):
    """What became of a run."""

    plan: Plan
    hash: str
    """Equal for equal runs."""
    events: int
    steps: int
    simulated_ms: int
    violation: Violation | None
    tail: tuple[str, ...]
    """The last lines of the trace when there was a violation."""

    @property
    def seed(self) -> int:
        return self.plan.seed


def run_seed(
    seed: int,
    *,
    brokers: int = 3,
    controllers: int | None = None,
    separate: bool = False,
    directories: int | None = None,
    setup: Setup = standard_setup,
) -> SeedResult:
    """Draw the run of a seed and run it."""
    plan = draw_plan(
        seed,
        brokers=brokers,
        controllers=controllers,
        separate=separate,
        directories=directories,
    )
    return run_plan(plan, setup=setup)


def run_plan(
    plan: Plan,
    *,
    setup: Setup = standard_setup,
    reader: Callable[[str], None] | None = None,
) -> SeedResult:
    """Run a plan; `reader` hears every line of the trace."""
    world = World(plan, reader)
    violation = None
    try:
        setup(world)
        world.start()
        world.run_until(plan.faults_ms)
        world.calm()
        world.run_until_well(plan.calm_ms)
        if plan.dead:
            world.bury(plan.dead)
            world.run_until_well(plan.calm_ms)
    except Violation as found:
        violation = found
        world.trace.note(f"VIOLATION {found}")
    return SeedResult(
        plan=plan,
        hash=world.trace.digest,
        events=world.timeline.happened,
        steps=world.steps,
        simulated_ms=world.now_ms,
        violation=violation,
        tail=tuple(world.trace.tail()) if violation is not None else (),
    )
