"""`tidelog sim`: whole clusters in virtual time, with faults drawn from a seed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import typer

from tidelog.cli.exits import answering, refuse
from tidelog.cli.files import text_of
from tidelog.cli.options import AsJson
from tidelog.cli.output import print_json, print_line, say
from tidelog.cli.pages import Open, Output, write_page

if TYPE_CHECKING:
    from tidelog.model.ids import TopicPartition
    from tidelog.simulator.run.plan import Plan
    from tidelog.simulator.run.runner import SeedResult
    from tidelog.simulator.run.setup import Setup
    from tidelog.simulator.story.telling import Recording

DEFAULT_SEEDS: Final = 20

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
    str | None,
    typer.Option(
        "--scenario",
        metavar="FILE|NAME",
        help="Run the plan, or replay the transcript, in this file, or one that comes with us.",
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(
        "--seeds",
        min=1,
        metavar="N",
        show_default="20, with --view 1",
        help="How many seeds to run.",
    ),
]
FirstSeed = Annotated[int, typer.Option("--seed", min=0, metavar="K", help="The first of them.")]
Accept = Annotated[
    bool, typer.Option("--accept", help="Write what came of a transcript back to its file.")
]
Brokers = Annotated[int, typer.Option("--brokers", min=1, max=9, help="Nodes.")]
Separate = Annotated[
    bool, typer.Option("--separate", help="With --controllers: let them be nodes of their own.")
]
Transactions = Annotated[
    bool, typer.Option("--transactions", help="Let transactional producers take part.")
]
Groups = Annotated[bool, typer.Option("--groups", help="Let members of consumer groups take part.")]
Compaction = Annotated[
    bool, typer.Option("--compaction", help="Let cleaners and a compacted topic take part.")
]
AccessControl = Annotated[
    bool,
    typer.Option(
        "--access-control",
        help="Let clients take part whose permissions come and go; one node votes then.",
    ),
]
Shown = Annotated[bool, typer.Option("--trace", help="Print every event.")]
Save = Annotated[
    Path | None,
    typer.Option("--save", metavar="FILE", help="Write the reduced plan of a failure here."),
]
View = Annotated[
    bool,
    typer.Option(
        "--view", help="Write a page to step through the run: the first that fails, or the first."
    ),
]
Seen = Annotated[
    str | None,
    typer.Option(
        "--partition",
        metavar="TOPIC-N",
        show_default="the one that fails, or the first",
        help="With --view: the partition to look at.",
    ),
]


def sim(
    seeds: Seeds = None,
    seed: FirstSeed = 1,
    scenario: Scenario = None,
    accept: Accept = False,
    brokers: Brokers = 3,
    controllers: Controllers = None,
    separate: Separate = False,
    directories: Directories = None,
    transactions: Transactions = False,
    groups: Groups = False,
    compaction: Compaction = False,
    access_control: AccessControl = False,
    trace: Shown = False,
    save: Save = None,
    view: View = False,
    partition: Seen = None,
    output: Output = None,
    opened: Open = False,
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

        viewing = _viewing(view, partition, output, opened)
        clients = (" --transactions" if transactions else "") + (" --groups" if groups else "")
        clients += " --compaction" if compaction else ""
        clients += " --access-control" if access_control else ""
        if scenario is not None:
            file, text = _scenario(scenario)
            try:
                if is_transcript(text):
                    _tell(scenario, file, text, accept=accept, viewing=viewing)
                    return
                plans, which = [usable_plan(text)], f" --scenario {scenario}"
            except ScenarioError as error:
                refuse(error.of(scenario))
        else:
            if access_control:
                if (controllers or 1) != 1:
                    refuse("--access-control goes with one controller: others cannot be told apart")
                controllers = 1
            count = seeds or (DEFAULT_SEEDS if viewing is None else 1)
            plans, which = _drawn(
                range(seed, seed + count), brokers, controllers, separate, directories
            )
        plans, setup = _with_clients(plans, transactions, groups, compaction, access_control)

        def again(plan: Plan, saved: Path | None) -> str:
            what = which.format(seed=plan.seed) if saved is None else f" --scenario {saved}"
            return f"tidelog sim{clients}{what}"

        _run_all(plans, setup, again, trace, as_json, save, viewing)


class _Viewing(NamedTuple):
    """A page is wanted."""

    partition: TopicPartition | None
    output: Path | None
    opened: bool


def _viewing(
    view: bool, partition: str | None, output: Path | None, opened: bool
) -> _Viewing | None:
    from tidelog.model.ids import TopicPartition

    if not view:
        if partition is not None or output is not None or opened:
            refuse("--partition, --output and --open need --view")
        return None
    named = None if partition is None else TopicPartition.from_directory(partition)
    if partition is not None and named is None:
        refuse(f"--partition {partition}: a partition is written TOPIC-N, as in orders-0")
    return _Viewing(named, output, opened)


def _scenario(name: str) -> tuple[Path | None, str]:
    """A scenario by its file or, when there is none, by its name among those that come with us."""
    from tidelog.model.errors import ConfigError
    from tidelog.simulator.scenarios import scenario_text

    file = Path(name)
    if file.is_dir():
        refuse(f"{name} is a directory, not a scenario")
    if file.exists():
        return file, text_of(file)
    try:
        return None, scenario_text(name)
    except ConfigError as error:
        refuse(f"there is no file {name}, and {error}")


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
    plans: Sequence[Plan],
    transactions: bool,
    groups: bool,
    compaction: bool,
    access_control: bool,
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
    if access_control:
        ready = [setup.with_access_control(plan) for plan in ready]
    return ready, partial(
        setup.standard_setup,
        with_transactions=transactions,
        with_groups=groups,
        with_compaction=compaction,
        with_access_control=access_control,
    )


def _tell(
    name: str, file: Path | None, text: str, *, accept: bool, viewing: _Viewing | None
) -> None:
    """Replay a transcript; it must say what its file says."""
    from tidelog.simulator.rules.violation import Violation
    from tidelog.simulator.run.transcript import replay

    if accept and file is None:
        refuse(f"--accept writes to a file, and {name} comes with the package")
    if viewing is not None:
        _view_transcript(name, text, viewing)
        return
    try:
        told = replay(text)
    except Violation as violation:
        refuse(f"{name}: {violation}")
    for line in told.splitlines():
        print_line(line)
    if accept and file is not None:
        file.write_text(told, encoding="utf-8")
    elif told != text:
        refuse(f"{name} tells something else; --accept rewrites it")


def _view_transcript(name: str, text: str, viewing: _Viewing) -> None:
    from tidelog.simulator.story.document import scenario_document
    from tidelog.simulator.story.telling import first_partition, record_transcript

    partition = viewing.partition or first_partition(text)
    if partition is None:
        refuse(f"{name} creates no topic, so there is nothing to look at")
    recording = record_transcript(text, partition)
    _require_seen(recording)
    stem = Path(name).stem
    document = scenario_document(stem, f"tidelog sim --scenario {name} --view", recording)
    write_page(document, viewing.output or Path(f"{stem}.html"), opened=viewing.opened)
    if recording.violation is not None:
        refuse(f"{name}: {recording.violation}")


def _require_seen(recording: Recording) -> None:
    recorder = recording.recorder
    if not recorder.saw_partition:
        refuse(f"no broker of this run ever has a replica of {recorder.partition}")


def _view_run(plan: Plan, setup: Setup, command: str, viewing: _Viewing) -> None:
    """Run a plan once more, watched."""
    from tidelog.simulator.run.runner import run_plan
    from tidelog.simulator.story.document import run_document
    from tidelog.simulator.story.telling import partition_to_watch, record_plan

    partition = viewing.partition or partition_to_watch(run_plan(plan, setup=setup))
    recording, _ = record_plan(plan, partition, setup)
    if viewing.partition is not None:
        _require_seen(recording)
    document = run_document(plan, f"{command} --view", recording)
    write_page(document, viewing.output or Path(f"seed-{plan.seed}.html"), opened=viewing.opened)


def _run_all(
    plans: Sequence[Plan],
    setup: Setup,
    again: Callable[[Plan, Path | None], str],
    trace: bool,
    as_json: bool,
    save: Path | None,
    viewing: _Viewing | None,
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
            reduced = _explain(result, setup, again(result.plan, save), save)
            if viewing is not None:
                _view_run(reduced.plan, setup, again(result.plan, save), viewing)
            refuse(f"seed {result.seed}: {result.violation}")
    if viewing is not None:
        _view_run(results[0].plan, setup, again(results[0].plan, None), viewing)


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


def _explain(result: SeedResult, setup: Setup, replay: str, save: Path | None) -> SeedResult:
    """Tell what failed, and by how little; the reduced run."""
    from tidelog.simulator.run.minimise import minimise
    from tidelog.simulator.run.report import failure_lines
    from tidelog.simulator.run.scenario_file import plan_text

    reduced = minimise(result, setup=setup)
    if save is not None:
        save.write_text(plan_text(reduced.plan), encoding="utf-8")
    for line in failure_lines(reduced, len(result.plan.faults), replay):
        say(line)
    return reduced
