"""`tidelog sim`: whole clusters in virtual time, with faults drawn from a seed."""

from __future__ import annotations

import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_line, say

if TYPE_CHECKING:
    from tidelog.simulator.plan import Plan
    from tidelog.simulator.runner import SeedResult
    from tidelog.simulator.setup import Setup


def sim(
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="How many seeds to run.")
    ] = 20,
    first: Annotated[
        int, typer.Option("--first", min=0, metavar="K", help="The first of them.")
    ] = 1,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="K", help="Run this seed alone.")
    ] = None,
    scenario: Annotated[
        Path | None,
        typer.Option(
            "--scenario",
            metavar="FILE",
            exists=True,
            dir_okay=False,
            help="Run the plan in this file instead of one drawn from a seed.",
        ),
    ] = None,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=9, help="Nodes.")] = 3,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Let transactional producers take part.")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Let members of consumer groups take part.")
    ] = False,
    trace: Annotated[bool, typer.Option("--trace", help="Print every event.")] = False,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="FILE", help="Write the reduced plan of a failure here."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run clusters in a simulated world and look for broken promises.

    Each seed draws its own cluster, network, disks and faults; the same seed always goes the same
    way. A failing run is reduced to the faults it needs and ends with the command that replays it.
    """
    with answering():
        from tidelog.simulator.report import LEGEND, summary
        from tidelog.simulator.scenario_file import parse_plan
        from tidelog.simulator.setup import standard_setup, with_groups, with_transactions
        from tidelog.simulator.swarm import draw_plan

        if trace:
            say(LEGEND)
        if scenario is not None:
            plans = [parse_plan(scenario.read_text(encoding="utf-8"))]
            again = f"tidelog sim --scenario {scenario}"
        else:
            chosen = range(first, first + seeds) if seed is None else (seed,)
            plans = [draw_plan(each, brokers=brokers) for each in chosen]
            again = f"tidelog sim --brokers {brokers} --seed "
        setup = partial(standard_setup, with_transactions=transactions, with_groups=groups)
        if transactions:
            plans = [with_transactions(plan) for plan in plans]
            again = again.replace("tidelog sim", "tidelog sim --transactions")
        if groups:
            plans = [with_groups(plan) for plan in plans]
            again = again.replace("tidelog sim", "tidelog sim --groups")
        began = time.process_time()
        results = [_run(plan, setup, trace=trace, as_json=as_json) for plan in plans]
        say(summary(results, time.process_time() - began))
        for result in results:
            if result.violation is not None:
                replay = again if scenario is not None else f"{again}{result.seed}"
                _explain(result, setup, replay, save)
                refuse(f"seed {result.seed}: {result.violation}")


def _run(plan: Plan, setup: Setup, *, trace: bool, as_json: bool) -> SeedResult:
    from tidelog.simulator.report import as_json as result_json
    from tidelog.simulator.report import seed_line
    from tidelog.simulator.runner import run_plan

    result = run_plan(plan, setup=setup, reader=print_line if trace else None)
    if as_json:
        print_json(result_json(result))
    else:
        print_line(seed_line(result))
    return result


def _explain(result: SeedResult, setup: Setup, replay: str, save: Path | None) -> None:
    from tidelog.simulator.minimise import minimise
    from tidelog.simulator.report import failure_lines
    from tidelog.simulator.scenario_file import plan_text

    reduced = minimise(result, setup=setup)
    if save is not None:
        save.write_text(plan_text(reduced.plan), encoding="utf-8")
        words = replay.partition(" --brokers")[0].partition(" --scenario")[0]
        replay = f"{words} --scenario {save}"
    for line in failure_lines(reduced, len(result.plan.faults), replay):
        say(line)
