"""Views: computed by Spark into a directory of its own, published in one commit.

Invariant  A reader sees the view of one run whole, or that of the run before.
"""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.transaction import AddAction

from tidelog.pipelines.spec import Pipeline
from tidelog.pipelines.sql_text import tables_in
from tidelog.pipelines.state import State
from tidelog.pipelines.table_files import stats_of


def views_can_be_computed(pipeline: Pipeline) -> bool:
    """Whether every table that a view reads has had its first batch."""
    used = {name for view in pipeline.views.values() for name in tables_in(view.sql)}
    return bool(pipeline.views) and all(
        State(pipeline.storage).table(each).exists() for each in used
    )


def publish_views(pipeline: Pipeline, warehouse: Path) -> None:
    """Replace every view by what Spark has computed."""
    for name in pipeline.views:
        _publish(warehouse / name, State(pipeline.storage).table(name))


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
    DeltaTable(str(target)).create_write_transaction(
        list(actions), mode="overwrite", schema=schema, partition_by=[]
    )
