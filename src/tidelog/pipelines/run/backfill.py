"""Older records for tables that are there: flows of their own, from a new start to the present one.

Invariant  A backfill goes on in every run from the moment its request is written, behind the starts
           and ends of its tables. The end of a table is the first to go once all is there.
Invariant  A record is brought by one flow: those of the backfill end where a table had started. The
           start moves back when they are at their end and the table's own flow has begun.
Invariant  Nobody but a table that is built anew is freed of a backfill before its end, and no
           partition but one that is no longer there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from dataclasses import replace

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.mistakes import PipelineTrouble, Tell
from tidelog.pipelines.description.spec import Pipeline, SparkOutput, starting_from
from tidelog.pipelines.project.pinning import pin_starts
from tidelog.pipelines.project.source_options import (
    ends_now,
    pinned_end,
    pinned_start,
    start_json,
    start_of,
)
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.data_loss import due, gone, only, standing
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.decisions import BACKFILL
from tidelog.pipelines.tables.durable import replace_file, sync_directory
from tidelog.spark.source.offsets import Positions


def request_backfill(
    pipeline: Pipeline, tables: Collection[str], start: str | None, tell: Tell
) -> None:
    """Have the next run bring records from `start` on to tables, and to those that go on from them.

    A table that has taken nothing yet just starts there.
    """
    if not tables or start is None:
        return
    wanted = _with_following(pipeline, tables)
    request = json.dumps({"tables": sorted(set(tables)), "from": start})
    if _goes_on(pipeline, request, tell):
        return
    pin_starts(pipeline)
    moved = starting_from(pipeline, tables, start)
    asked = {name: start_of(moved, name) for name in tables}
    roots = {name: pipeline.lineage(name)[0].name for name in wanted}
    found = {name: _older(pipeline, name, asked[roots[name]]) for name in wanted}
    state = pipeline.state._replace(backfill=True)
    _forget_all(pipeline)
    for name, starts in found.items():
        present = pinned_start(pipeline.state, name)
        if not starts:
            tell(f"{name} has all records from there on: nothing to backfill")
        elif not _has_begun(pipeline, name):
            replace_file(pipeline.state.start_file(name), start_json({**present, **starts}))
            tell(f"{name} has taken nothing yet: it starts there")
        else:
            replace_file(state.start_file(name), start_json(starts))
            replace_file(state.end_file(name), start_json(only(present, starts)))
            older = sum(present[each].offset - at.offset for each, at in starts.items())
            tell(f"{name}: a backfill of {older} offsets before its start")
    replace_file(state.backfill_request, request)


def pending_backfill(pipeline: Pipeline) -> list[Pipeline]:
    """The flows that bring what was asked for and is not all there; none, or those of one."""
    tables = tuple(name for name in pipeline.tables if pipeline.state.is_backfilled(name))
    return [replace(pipeline, views={}, backfill=tables)] if tables else []


def drop_gone(pipeline: Pipeline) -> None:
    """Read no partition that is no longer there; if that is a loss, it has been told."""
    for flows in pending_backfill(pipeline):
        for name in flows.backfill:
            _, latest = ends_now(pipeline, name)
            starts, ends = pinned_start(flows.state, name), pinned_end(flows.state, name)
            if starts.keys() | ends.keys() <= latest.keys():
                continue
            if left := only(ends, latest):
                replace_file(flows.state.end_file(name), start_json(left))
                replace_file(flows.state.start_file(name), start_json(only(starts, left)))
            else:
                forget_backfill(pipeline.state, name)


def settle_backfill(pipeline: Pipeline, tell: Tell) -> None:
    """Where the flows of a backfill are at their end, their starts are those of the tables."""
    own = pipeline.state._replace(backfill=False)
    for name in pipeline.backfill:
        ends = pinned_end(pipeline.state, name)
        if any(due(position, ends) for position in standing(pipeline, name)):
            tell(f"{name}: the backfill has not come to its end; the next run goes on with it")
            continue
        starts = {**pinned_start(own, name), **pinned_start(pipeline.state, name)}
        replace_file(own.start_file(name), start_json(starts))
        forget_backfill(own, name)


def forget_backfill(state: State, table: str) -> None:
    """Remove what a backfill that is done, or was never asked for to the end, has left."""
    older = state._replace(backfill=True)
    if older.end_file(table).exists():
        older.end_file(table).unlink()
        sync_directory(older.end_file(table).parent)
    older.start_file(table).unlink(missing_ok=True)
    for flow in (table, f"{table}_quarantine"):
        decisions = older.decisions(flow) / BACKFILL
        for each in decisions.glob("*.json"):  # before the note that they were carried out
            each.unlink()
        for directory in (older.checkpoints(flow), decisions):
            if directory.exists():
                shutil.rmtree(directory)
                sync_directory(directory.parent)


def _forget_all(pipeline: Pipeline) -> None:
    """Whatever a request that was cut short has left, none of it speaks for the next one."""
    request = pipeline.state.backfill_request
    if request.exists():
        request.unlink()
        sync_directory(request.parent)
    for name in pipeline.tables:
        forget_backfill(pipeline.state, name)


def _with_following(pipeline: Pipeline, tables: Collection[str]) -> list[str]:
    """The tables and those that go on from them; only one that reads topics can be asked for."""
    for name in tables:
        if name not in pipeline.tables:
            raise PipelineTrouble(f"there is no table {name}; {nearest(name, pipeline.tables)}")
        if (root := pipeline.lineage(name)[0].name) != name:
            raise PipelineTrouble(
                f"{name} goes on from {root} and would be ahead of it: --backfill {root} brings "
                "older records to both"
            )
    found = [name for name in pipeline.tables if pipeline.lineage(name)[0].name in tables]
    for name in found:
        output = pipeline.tables[name].output
        if isinstance(output, SparkOutput):
            raise PipelineTrouble(
                f"{name} is a table of Spark's {output.format}, whose sink may take batches of a "
                "backfill for those it has: give it another name and start, to build it anew"
            )
    return found


def _goes_on(pipeline: Pipeline, request: str, tell: Tell) -> bool:
    """Whether this is what a run that was cut short had begun; another one has to wait for it."""
    for flows in pending_backfill(pipeline):
        names = ", ".join(flows.backfill)
        if flows.state.backfill_request.read_text(encoding="utf-8") != request:
            raise PipelineTrouble(
                f"another backfill of {names} is not done: run without --backfill first"
            )
        tell(f"going on with the backfill of {names}")
        return True
    return False


def _older(pipeline: Pipeline, name: str, asked: Positions) -> Positions:
    """Where partitions are to start that have started later; no record from there on is gone."""
    present = pinned_start(pipeline.state, name)
    starts = {
        each: at
        for each, at in asked.items()
        if each in present and at.offset < present[each].offset
    }
    if lost := "; ".join(gone(starts, *(only(each, starts) for each in ends_now(pipeline, name)))):
        raise PipelineTrouble(f"{name}: {lost}. `--from earliest` takes what is left")
    return starts


def _has_begun(pipeline: Pipeline, name: str) -> bool:
    flows = pipeline.tables[name].flows
    return any(Checkpoint(pipeline.state.checkpoints(each), each).batches() for each in flows)
