"""One run of a pipeline: from what a dead run left behind to a summary per table.

Invariant  Only one process at a time runs a pipeline. The lock is held by whoever may still write:
           the process that holds Spark inherits it.
"""

from __future__ import annotations

import fcntl
import shutil
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple, Protocol

from tidelog.pipelines.description.mistakes import PipelineTrouble, Tell
from tidelog.pipelines.description.spec import Pipeline, TableFormat, TableOutput
from tidelog.pipelines.project.pinning import pin_schemas, pin_starts
from tidelog.pipelines.project.project import VIEWS, write_project, write_views
from tidelog.pipelines.project.source_options import check_topics
from tidelog.pipelines.run.backfill import (
    drop_gone,
    pending_backfill,
    request_backfill,
    settle_backfill,
)
from tidelog.pipelines.run.data_loss import check_losses
from tidelog.pipelines.run.progress import progress, totals
from tidelog.pipelines.run.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.run.summary import TableSummary, Taken, position_of, summarize, taken
from tidelog.pipelines.run.views import computable_views, publish_views
from tidelog.pipelines.tables.stored_tables import compact
from tidelog.pipelines.tables.table_commit import TableCommit, TableTarget


class ProjectRunner(Protocol):
    """The process that holds Spark, as a run sees it."""

    def run(self, project: Path) -> None:
        """Run a project to its end; what goes wrong is raised."""


@contextmanager
def sole_run(pipeline: Pipeline) -> Iterator[int]:
    """Be the only run; gives the file that holds the lock."""
    path = pipeline.state.lock_file
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise PipelineTrouble(
                f"another run of {pipeline.name} is at work; wait until it has ended"
            ) from None
        yield file.fileno()


class _Asked(NamedTuple):
    """What a run is asked for, and whom it tells."""

    pipeline: Pipeline
    tell: Tell
    anew: Collection[str]
    start: str | None
    backfill: Collection[str]

    def flows(self) -> list[Pipeline]:
        """Those of the tables, then those of a backfill that is not done."""
        return [self.pipeline, *pending_backfill(self.pipeline)]


def prepare(
    pipeline: Pipeline,
    tell: Tell,
    anew: Collection[str] = (),
    start: str | None = None,
    backfill: Collection[str] = (),
) -> None:
    """All that comes before Spark, in the order of PREPARATIONS.

    `start` is where tables that are built anew or backfilled begin.
    """
    asked = _Asked(pipeline, tell, anew, start, backfill)
    for prepare_one, _ in PREPARATIONS:
        prepare_one(asked)


def _check_losses(asked: _Asked) -> None:
    for each in asked.flows():
        check_losses(each, asked.tell)


def _pin_schemas(asked: _Asked) -> None:
    for each in asked.flows():
        pin_schemas(each, asked.tell)


def _write_projects(asked: _Asked) -> None:
    for each in asked.flows():
        shutil.rmtree(each.state.project, ignore_errors=True)
        write_project(each, each.state.project)


PREPARATIONS: Final[tuple[tuple[Callable[[_Asked], None], str], ...]] = (
    (
        lambda asked: check_topics(asked.pipeline),
        "a description with a mistake is refused before anything is changed",
    ),
    (
        lambda asked: request_refresh(asked.pipeline, asked.anew, asked.start),
        "new starts are found, or refused, while the old tables are whole",
    ),
    (
        lambda asked: finish_refreshes(asked.pipeline),
        "a table that is half removed can take no batch, so it is gone before batches are finished",
    ),
    (
        lambda asked: finish_batches(asked.pipeline),
        "a request for a backfill clears what the last one decided; nothing of it may be waiting",
    ),
    (
        lambda asked: request_backfill(asked.pipeline, asked.backfill, asked.start, asked.tell),
        "a table that is new starts where the backfill of the one before it will have started",
    ),
    (
        lambda asked: pin_starts(asked.pipeline),
        "only what has a start can have lost records behind it",
    ),
    (_check_losses, "a loss is told, or refused, before its partition is given up"),
    (
        lambda asked: drop_gone(asked.pipeline),
        "columns are inferred from records, which a partition that is gone does not give",
    ),
    (_pin_schemas, "a project names the columns, starts and ends that are pinned"),
    (_write_projects, "Spark reads them next"),
)
"""What prepares a run, and why it comes before what stands below it.

Each may be the last thing that a run does before it dies: the next run begins from the top again.
"""


def finish_batches(pipeline: Pipeline) -> None:
    """Carry out what runs that died had decided."""
    for target in targets(pipeline).values():
        TableCommit(target).finish()


def run_once(pipeline: Pipeline, spark: ProjectRunner, tell: Tell) -> list[TableSummary]:
    """Bring every table and every view up to date."""
    state = pipeline.state
    found: dict[str, list[Taken]] = {name: [] for name in pipeline.tables}
    for flows in (pipeline, *pending_backfill(pipeline)):
        for name, part in _run_flows(flows, spark, tell).items():
            found[name].append(part)
        if flows.backfill:
            settle_backfill(flows, tell)
    if views := computable_views(pipeline):
        shutil.rmtree(state.project / VIEWS)
        write_views(pipeline, views, state.project / VIEWS)
        spark.run(state.project / VIEWS)
        publish_views(pipeline, views, state.warehouse)
    for table in pipeline.stored_tables():
        if isinstance(table.output, TableOutput) and table.output.compact_files is not None:
            compact(state.table(table.name), table.output.compact_files)
    return [summarize(pipeline, name, parts) for name, parts in found.items()]


def _run_flows(pipeline: Pipeline, spark: ProjectRunner, tell: Tell) -> dict[str, Taken]:
    """Run the flows of one project to their end."""
    before = totals(pipeline)
    stood_at = {name: position_of(pipeline, name) for name in before}
    with progress(pipeline, before, tell):
        spark.run(pipeline.state.project)
    return {
        name: taken(pipeline, name, total - before[name], stood_at[name])
        for name, total in totals(pipeline).items()
    }


def targets(pipeline: Pipeline) -> dict[str, TableTarget]:
    """Every table that our sink writes."""
    state = pipeline.state
    found = {}
    for table in pipeline.tables.values():
        if isinstance(table.output, TableOutput):
            found[table.name] = TableTarget(
                table=state.table(table.name),
                quarantine=state.quarantine(table.name),
                decisions=state.decisions(table.name),
                format=table.output.format,
                partition_by=table.output.partition_by,
            )
        else:
            refused = f"{table.name}_quarantine"
            found[refused] = TableTarget(
                table=state.table(refused),
                quarantine=None,
                decisions=state.decisions(refused),
                format=TableFormat.DELTA,
            )
    return found
