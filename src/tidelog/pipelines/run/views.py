"""Views: computed by Spark into a directory of its own, published in one commit.

Invariant  A reader sees the view of one run whole, or that of the run before.
Invariant  Only the files of the last run stay: each replaces all of the run before.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from tidelog.pipelines.description.spec import (
    Pipeline,
    SparkOutput,
    TableFormat,
    TableOutput,
    View,
)
from tidelog.pipelines.description.sql_text import tables_in
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.tables.table_files import STAGING, stats_of


def computable_views(pipeline: Pipeline) -> list[View]:
    """The views whose tables are all there to be read."""
    return [
        view
        for view in pipeline.views.values()
        if all(_can_be_read(pipeline, name) for name in tables_in(view.sql))
    ]


def publish_views(pipeline: Pipeline, views: Iterable[View], warehouse: Path) -> None:
    """Replace these views by what Spark has computed."""
    for view in views:
        _publish(warehouse / view.name, pipeline.state.table(view.name))


def _can_be_read(pipeline: Pipeline, name: str) -> bool:
    """A Delta table says itself what its columns are; of a Parquet table only its files do."""
    path = pipeline.state.table(name)
    output = pipeline.tables[name].output
    if isinstance(output, SparkOutput):
        return bool(Checkpoint(pipeline.state.checkpoints(name), name).position())
    assert isinstance(output, TableOutput)
    if output.format is TableFormat.DELTA:
        return DeltaTable.is_deltatable(str(path))
    files = (each.relative_to(path) for each in path.rglob("*.parquet"))
    return any(STAGING not in each.parts for each in files)


def _publish(computed: Path, target: Path) -> None:
    files = sorted(computed.glob("*.parquet"))
    schema = Schema.from_arrow(pq.read_schema(files[0]).remove_metadata())
    if not DeltaTable.is_deltatable(str(target)):
        DeltaTable.create(str(target), schema, mode="ignore")
    now_ms = int(time.time() * 1000)
    actions = []
    for path in files:
        name = f"part-{os.urandom(8).hex()}.parquet"
        shutil.copyfile(path, target / name)
        rows = pq.read_metadata(path).num_rows
        size = (target / name).stat().st_size
        actions.append(AddAction(name, size, {}, now_ms, True, stats_of(rows)))
    table = DeltaTable(str(target))
    table.create_write_transaction(list(actions), mode="overwrite", schema=schema, partition_by=[])
    table.update_incremental()
    table.vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False, full=True)
