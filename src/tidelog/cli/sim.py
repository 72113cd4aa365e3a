"""`tidelog sim`: whole clusters in virtual time, with faults drawn from a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_line, say

if TYPE_CHECKING:
    from tidelog.simulator.run.plan import Plan
    from tidelog.simulator.run.runner import SeedResult
    from tidelog.simulator.run.setup import Setup


Controllers = Annotated[
    int | None,
    typer.Option(
        "--controllers",
        min=1,
        max=9,
        show_default="drawn from the seed",
        help="How many of the nodes vote.",
    ),
]
Directories = Annotated[
    int | None,
    typer.Option(
        "--directories",
        min=1,
        max=9,
        show_default="drawn from the seed",
        help="How many log directories each broker has.",
    ),
]

Scenario = Annotated[
    Path | None,
    typer.Option(
        "--scenario",
        metavar="FILE",
        exists=True,
        dir_okay=False,
        help="Run the plan, or replay the transcript, in this file instead.",
    ),
]


def sim(
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, metavar="N", help="How many seeds to run.")
    ] = 20,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="K", help="The first of them.")] = 1,
    scenario: Scenario = None,
    accept: Annotated[
        bool, typer.Option("--accept", help="Write what came of a transcript back to its file.")
    ] = False,
    brokers: Annotated[int, typer.Option("--brokers", min=1, max=9, help="Nodes.")] = 3,
    controllers: Controllers = None,
    separate: Annotated[
        bool,
        typer.Option("--separate", help="With --controllers: let them be nodes of their own."),
    ] = False,
    directories: Directories = None,
    transactions: Annotated[
        bool, typer.Option("--transactions", help="Let transactional producers take part.")
    ] = False,
    groups: Annotated[
        bool, typer.Option("--groups", help="Let members of consumer groups take part.")
    ] = False,
    compaction: Annotated[
        bool, typer.Option("--compaction", help="Let cleaners and a compacted topic take part.")
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
        from tidelog.simulator.run.scenario_file import usable_plan
        from tidelog.simulator.run.scenario_mistakes import ScenarioError
        from tidelog.simulator.run.transcript import is_transcript

        clients = (" --transactions" if transactions else "") + (" --groups" if groups else "")
        clients += " --compaction" if compaction else ""
        if scenario is not None:
            text = _text_of(scenario)
            try:
                if is_transcript(text):
                    _tell(scenario, text, accept=accept)
                    return
                plans, which = [usable_plan(text)], f" --scenario {scenario}"
            except ScenarioError as error:
                refuse(error.of(scenario))
        else:
            plans, which = _drawn(
                range(seed, seed + seeds), brokers, controllers, separate, directories
            )
        plans, setup = _with_clients(plans, transactions, groups, compaction)

        def again(plan: Plan, saved: Path | None) -> str:
            what = which.format(seed=plan.seed) if saved is None else f" --scenario {saved}"
            return f"tidelog sim{clients}{what}"

        _run_all(plans, setup, again, trace, as_json, save)


def _drawn(
    seeds: range,
    brokers: int,
    controllers: int | None,
    separate: bool,
    directories: int | None,
) -> tuple[list[Plan], str]:
    """The plans of these seeds, and the options that draw one of them again."""
    from tidelog.simulator.faults.swarm import draw_plan

    if controllers is None and separate:
        refuse("--separate needs --controllers: otherwise the seed decides")
    if controllers is not None and controllers > brokers and not separate:
        refuse(f"of {brokers} nodes no {controllers} can vote")
    plans = [
        draw_plan(
            each,
            brokers=brokers,
            controllers=controllers,
            separate=separate,
            directories=directories,
        )
        for each in seeds
    ]
    which = "" if brokers == 3 else f" --brokers {brokers}"
    which += "" if controllers is None else f" --controllers {controllers}"
    which += " --separate" if separate else ""
    which += "" if directories is None else f" --directories {directories}"
    return plans, which + " --seeds 1 --seed {seed}"


def _with_clients(
    plans: Sequence[Plan], transactions: bool, groups: bool, compaction: bool
) -> tuple[list[Plan], Setup]:
    """The same plans for nodes that are ready for those clients, and a world with them."""
    from tidelog.simulator.run import setup

    ready = list(plans)
    if transactions:
        ready = [setup.with_transactions(plan) for plan in ready]
    if groups:
        ready = [setup.with_groups(plan) for plan in ready]
    if compaction:
        ready = [setup.with_compaction(plan) for plan in ready]
    return ready, partial(
        setup.standard_setup,
        with_transactions=transactions,
        with_groups=groups,
        with_compaction=compaction,
    )


def _text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        refuse(f"{file}:{line}: not UTF-8: save it as such")


def _tell(file: Path, text: str, *, accept: bool) -> None:
    """Replay a transcript; it must say what its file says."""
    from tidelog.simulator.rules.violation import Violation
    from tidelog.simulator.run.transcript import replay

    try:
        told = replay(text)
    except Violation as violation:
        refuse(f"{file}: {violation}")
    for line in told.splitlines():
        print_line(line)
    if accept:
        file.write_text(told, encoding="utf-8")
    elif told != text:
        refuse(f"{file} tells something else; --accept rewrites it")


def _run_all(
    plans: Sequence[Plan],
    setup: Setup,
    again: Callable[[Plan, Path | None], str],
    trace: bool,
    as_json: bool,
    save: Path | None,
) -> None:
    """One after the other; the first failure is explained at the end."""
    from tidelog.simulator.run.report import LEGEND, summary

    if trace:
        say(LEGEND)
    began = time.process_time()
    results = [_run(plan, setup, trace=trace, as_json=as_json) for plan in plans]
    say(summary(results, time.process_time() - began))
    for result in results:
        if result.violation is not None:
            _explain(result, setup, again(result.plan, save), save)
            refuse(f"seed {result.seed}: {result.violation}")


def _run(plan: Plan, setup: Setup, *, trace: bool, as_json: bool) -> SeedResult:
    from tidelog.simulator.run.report import as_json as result_json
    from tidelog.simulator.run.report import seed_line
    from tidelog.simulator.run.runner import run_plan

    result = run_plan(plan, setup=setup, reader=print_line if trace else None)
    if as_json:
        print_json(result_json(result))
    else:
        print_line(seed_line(result))
    return result


def _explain(result: SeedResult, setup: Setup, replay: str, save: Path | None) -> None:
    from tidelog.simulator.run.minimise import minimise
    from tidelog.simulator.run.report import failure_lines
    from tidelog.simulator.run.scenario_file import plan_text

    reduced = minimise(result, setup=setup)
    if save is not None:
        save.write_text(plan_text(reduced.plan), encoding="utf-8")
    for line in failure_lines(reduced, len(result.plan.faults), replay):
        say(line)
