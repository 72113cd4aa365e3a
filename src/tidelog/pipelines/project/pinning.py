"""What must be the same in every run is settled in the first one: starts and inferred columns.

Invariant  A first batch that is run again starts where it started, and misses nothing before it.
Invariant  A table that goes on from another one starts where that one started.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from tidelog.pipelines.description.mistakes import NotYet, Tell
from tidelog.pipelines.description.spec import Column, Pipeline, Table
from tidelog.pipelines.project.inference import infer_columns
from tidelog.pipelines.project.pinned import pin_columns, pinned_columns
from tidelog.pipelines.project.source_options import ends_now, pinned_start, start_json, start_of
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.summary import position_of
from tidelog.pipelines.tables.durable import replace_file
from tidelog.spark.source.offsets import Positions

Infer: TypeAlias = Callable[[Pipeline, str, Positions], tuple[Column, ...]]
"""The columns of a table's records from a position on."""


def pin(pipeline: Pipeline, tell: Tell, infer: Infer = infer_columns) -> None:
    """Settle what is not settled yet."""
    pin_starts(pipeline)
    pin_schemas(pipeline, tell, infer)


def pin_starts(pipeline: Pipeline) -> None:
    """Settle where tables start, those that others go on from first."""
    by_depth = sorted(pipeline.tables, key=lambda name: len(pipeline.lineage(name)))
    for name in by_depth:
        pin_start(pipeline, name)


def pin_schemas(pipeline: Pipeline, tell: Tell, infer: Infer = infer_columns) -> None:
    """Settle the columns of the records that its flows read next."""
    for table in pipeline.filled:
        _pin_schema(pipeline, table, tell, infer)


def pin_start(pipeline: Pipeline, name: str) -> None:
    """Settle where a table starts; until its first batch is done, with the partitions of by then.

    A batch that was only planned is read again, and a read names every partition that is there.
    """
    state = pipeline.state
    flows = [Checkpoint(state.checkpoints(each), each) for each in pipeline.tables[name].flows]
    if all(each.committed() for each in flows):
        return
    root = pipeline.lineage(name)[0].name
    before = [each for each in (name, root) if state.start_file(each).exists()]
    if name not in before and any(each.batches() for each in flows):
        return  # it began with the first records, whatever description and root say by now
    if before:
        earliest, _ = ends_now(pipeline, name)
        pinned = pinned_start(state, before[0])
        if before[0] != name and state.is_backfilled(root):
            pinned |= pinned_start(state._replace(backfill=True), root)
        found = started(pinned, earliest, inherited=before[0] != name)
    elif pipeline.source(name).start == "earliest":
        return
    else:
        found = start_of(pipeline, name)
    replace_file(state.start_file(name), start_json(found))


def started(pinned: Positions, earliest: Positions, *, inherited: bool) -> Positions:
    """The pinned start, for the partitions of now; one that came later starts at its first record.

    What has aged out since another table started is no loss of one that starts from there.
    """
    return {
        each: max(pinned.get(each, first), first) if inherited else pinned.get(each, first)
        for each, first in earliest.items()
    }


def _pin_schema(pipeline: Pipeline, table: Table, tell: Tell, infer: Infer) -> None:
    if table.decode is None or table.decode.columns is not None:
        return
    found = infer(pipeline, table.name, position_of(pipeline, table.name))
    for column in pin_columns(pipeline, table.name, found):
        tell(f"column {column.name} {column.type} of {table.name} is pinned")
    if pinned_columns(pipeline, table.name) is None:
        raise NotYet(
            f"the schema of {table.name} cannot be inferred: from its start on, its topics hold no "
            "JSON object yet. Give it a schema, or run again when there are records"
        )
