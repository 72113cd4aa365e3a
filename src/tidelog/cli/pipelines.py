"""`tidelog pipelines`: from topics to tables, exactly once."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import ExitCode, answering, refuse
from tidelog.cli.options import (
    BOOTSTRAP_VARIABLE,
    AsJson,
    Bootstrap,
    OfLocalCluster,
    bootstrap_of,
    given_bootstrap,
)
from tidelog.cli.output import print_json, print_line, print_table, say

if TYPE_CHECKING:
    from tidelog.pipelines.audit.comparing import TableAudit
    from tidelog.pipelines.description.spec import Pipeline
    from tidelog.pipelines.run.spark_process import SparkProcess, StartSpark
    from tidelog.pipelines.run.summary import TableSummary

app = typer.Typer(help="From topics to tables, exactly once, on Spark.", no_args_is_help=True)


PipelineFile = Annotated[
    Path,
    typer.Argument(
        metavar="[PIPELINE]", help="The description, or its directory.", show_default="here"
    ),
]
OtherBootstrap = Annotated[
    str | None,
    typer.Option(
        "--bootstrap",
        "--bootstrap-server",
        metavar="HOST:PORT",
        help="Another cluster than the description names; TIDELOG_BOOTSTRAP says it for one that "
        "names none.",
    ),
]
OtherLocalCluster = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="DIR",
        help="Not --bootstrap, but the directory of a cluster on this machine.",
        file_okay=False,
    ),
]

Master = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        help="Where Spark runs, for example spark://host:port. Default: here, on all cores.",
    ),
]


@app.command()
def init(
    name: Annotated[Path, typer.Argument(metavar="NAME", help="The directory to create.")],
    bootstrap: Bootstrap = None,
    data: OfLocalCluster = None,
) -> None:
    """Write a commented example that runs as it is."""
    with answering():
        require_pipelines()
        from tidelog.pipelines.description.example import write_example

        where = bootstrap_of(bootstrap, data)
        for path in write_example(name, where):
            say(f"wrote {path}")
        say(
            "try:   tidelog topics create orders --if-not-exists"
            f" --bootstrap {where}\n"
            f"       tidelog produce orders --bootstrap {where} < {name}/orders.jsonl\n"
            f"       tidelog pipelines run {name}"
        )


@app.command()
def check(
    pipeline: PipelineFile = Path(),
    mermaid: Annotated[
        bool, typer.Option("--mermaid", help="The plan as a Mermaid graph.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="Ask no cluster whether the topics are there.")
    ] = False,
    bootstrap: OtherBootstrap = None,
    data: OtherLocalCluster = None,
) -> None:
    """Find mistakes before Spark starts, and show the plan."""
    with answering():
        found = load(pipeline, bootstrap, data)
        from tidelog.pipelines.description.function_check import doubts
        from tidelog.pipelines.description.picture import as_mermaid, as_text

        for doubt in doubts(found):
            say(f"{found.path}:{doubt.line}: {doubt.text}", style="yellow")
        if not offline:
            from tidelog.pipelines.project.source_options import check_topics

            check_topics(found)
        print_line(as_mermaid(found) if mermaid else as_text(found))


@app.command()
def run(
    pipeline: PipelineFile = Path(),
    master: Master = None,
    full_refresh: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Build this table anew; may be repeated."),
    ] = None,
    backfill: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TABLE",
            help="Bring records from before its start to this table, and to those that go on from "
            "it; may be repeated.",
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="START",
            help="With --backfill or --full-refresh: from here on, for example 2026-01-31, -1 day "
            "or {orders: {0: 42}}.",
        ),
    ] = None,
    bootstrap: OtherBootstrap = None,
    data: OtherLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Bring the tables up to date with their topics, and say what was done."""
    if full_refresh and backfill:
        raise typer.BadParameter("--full-refresh and --backfill are two runs: keep one of them")
    if start is not None and not full_refresh and not backfill:
        raise typer.BadParameter("--from needs --backfill TABLE or --full-refresh TABLE")
    if start is None and backfill:
        raise typer.BadParameter("--backfill needs --from START")
    with answering():
        found = load(pipeline, bootstrap, data)
        from tidelog.pipelines.run.running import prepare, run_once

        def ready() -> None:
            prepare(found, say, full_refresh or [], start, backfill or [])

        with spark_for(found, master, ready) as spark:
            print_summaries(run_once(found, spark, say), as_json)


@app.command()
def watch(
    pipeline: PipelineFile = Path(),
    master: Master = None,
    every: Annotated[
        float, typer.Option(min=0.1, metavar="SECONDS", help="How often to look for new records.")
    ] = 1.0,
    bootstrap: OtherBootstrap = None,
    data: OtherLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Keep Spark up and run again whenever records have come, until Ctrl-C."""
    with answering():
        found = load(pipeline, bootstrap, data)
        from tidelog.pipelines.run.watching import runs, wait_until_prepared

        def ready() -> None:
            wait_until_prepared(found, every, say)

        with spark_for(found, master, ready) as spark:
            for summaries in runs(found, spark, every, say):
                print_summaries(summaries, as_json)


@app.command()
def audit(
    pipeline: PipelineFile = Path(),
    master: Master = None,
    table: Annotated[
        list[str] | None, typer.Option(help="Only this table; may be repeated.")
    ] = None,
    bootstrap: OtherBootstrap = None,
    data: OtherLocalCluster = None,
    as_json: AsJson = False,
) -> None:
    """Prove that each committed record is once in its table, or once in quarantine.

    Reads the topics again and compares positions, with Spark. The exit code is 1 and the records
    are listed if one is lost, doubled, in the table instead of in quarantine or the reverse, there
    although a step drops it, or there although no known batch brought it.
    """
    with answering():
        found = load(pipeline, bootstrap, data)
        from tidelog.pipelines.audit.auditing import audit_pipeline

        print_audits(audit_pipeline(found, table or [], master, say), as_json)


def print_audits(audits: Collection[TableAudit], as_json: bool) -> None:
    """What was found on stdout, what was proved on stderr; ends with 1 if anything was found."""
    findings = [each for audit in audits for each in audit.findings]
    for each in findings if as_json else ():
        print_json(each._asdict())
    if findings and not as_json:
        print_table(["table", "topic", "partition", "offset", "finding"], findings)
    for one in audits:
        say(_verdict(one))
    if findings:
        raise typer.Exit(ExitCode.REFUSED)


def _verdict(audit: TableAudit) -> str:
    """What was proved; nothing, where no record was taken."""
    seen = audit.records + audit.rows + audit.quarantined + audit.aged_out
    if not seen and not audit.found:
        return f"{audit.table}: no record was taken yet, so there is nothing to prove"
    listed = len(audit.findings)
    return (
        f"{audit.table}: {audit.records} records, {audit.rows} in the table, "
        f"{audit.quarantined} in quarantine, {audit.aged_out} aged out of the topic: "
        f"{audit.found or 'no'} finding{'' if audit.found == 1 else 's'}"
        f"{'' if audit.found == listed else f', the first {listed} are listed'}"
    )


@app.command()
def eject(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="A directory to create.")],
    pipeline: PipelineFile = Path(),
    bootstrap: OtherBootstrap = None,
    data: OtherLocalCluster = None,
) -> None:
    """Write the pipeline as an ordinary Spark Declarative Pipelines project, for you to own."""
    with answering():
        found = load(pipeline, bootstrap, data)
        from tidelog.pipelines.project.pinning import pin
        from tidelog.pipelines.project.project import SPEC_FILE, write_project

        if directory.exists() and any(directory.iterdir()):
            refuse(f"{directory} is there already and not empty: choose another one")
        pin(found, say)
        write_project(found, directory)
        say(f"run it with: spark-pipelines run --spec {directory / SPEC_FILE}")


@contextmanager
def spark_for(
    pipeline: Pipeline,
    master: str | None,
    ready: Callable[[], None],
    start: StartSpark | None = None,
) -> Iterator[SparkProcess]:
    """Spark for a pipeline that is locked, and prepared by `ready`; `start` starts it."""
    # A plain end would leave Spark behind, at work and with the lock.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    from tidelog.pipelines.run.running import sole_run
    from tidelog.pipelines.run.spark_process import spark_process

    state = pipeline.state
    with sole_run(pipeline) as lock:
        ready()
        shutil.rmtree(state.warehouse, ignore_errors=True)
        settings = {"spark.sql.warehouse.dir": str(state.warehouse), **pipeline.spark}
        say("starting Spark")
        start = start or spark_process
        with start(master or "local[*]", settings, state.log, lock, say) as spark:
            yield spark


def print_summaries(found: Iterable[TableSummary], as_json: bool) -> None:
    rows = list(found)
    for each in rows if as_json else ():
        print_json(each._asdict())
    if not as_json:
        print_table(["table", "in", "out", "quarantined", "dropped", "lag"], rows)


def load(path: Path, bootstrap: str | None, data: Path | None) -> Pipeline:
    """The pipeline that the command is about; what is nearer to it says where its cluster is."""
    require_pipelines()
    from tidelog.pipelines.description.parsing import load_pipeline

    given = given_bootstrap(bootstrap, data)
    found = load_pipeline(path, given or bootstrap_of(None, None))
    if given is not None:
        return replace(found, bootstrap=given)
    variable = os.environ.get(BOOTSTRAP_VARIABLE)
    if variable and found.bootstrap != variable:
        say(
            f"{found.bootstrap} of {found.path.name} is used, not {variable} of "
            f"{BOOTSTRAP_VARIABLE}; --bootstrap would go before both"
        )
    return found


def require_pipelines() -> None:
    try:
        import deltalake  # noqa: F401
        import sqlglot  # noqa: F401
        import yaml  # noqa: F401
    except ModuleNotFoundError as error:
        refuse(f"pipelines need {error.name}, which is missing: pip install 'tidelog[pipelines]'")
