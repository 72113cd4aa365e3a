"""Views: replaced whole, whatever became of their columns."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from pyspark.sql import SparkSession
from tests.pipelines.conftest import Describe

from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.views import computable_views, publish_views
from tidelog.pipelines.tables.stored_tables import ParquetStore
from tidelog.pipelines.tables.table_commit import QUARANTINE_SCHEMA
from tidelog.pipelines.tables.table_files import STAGING

VIEW = "name: x\ntables: {a: {topics: o}}\nviews: {v: {sql: SELECT count(*) AS n FROM a}}"


def publish(pipeline: Pipeline, warehouse: Path, rows: pa.Table) -> list[dict[str, object]]:
    (warehouse / "v").mkdir(parents=True, exist_ok=True)
    pq.write_table(rows, warehouse / "v" / "part-0.parquet")
    publish_views(pipeline, pipeline.views.values(), warehouse)
    table = DeltaTable(str(State(pipeline.storage).table("v")))
    found: list[dict[str, object]] = table.to_pyarrow_table().to_pylist()
    return found


def test_a_view_is_replaced_by_the_next_one(describe: Describe, tmp_path: Path) -> None:
    pipeline = describe(VIEW)
    moment = pa.array([datetime(2026, 1, 31, tzinfo=UTC)], pa.timestamp("us", "UTC"))
    first = pa.table({"n": [1], "at": moment})
    second = pa.table({"n": ["x", "y"], "more": [1.5, None]})
    for rows in (first, second, second, first):
        assert publish(pipeline, tmp_path / "warehouse", rows) == rows.to_pylist()


def test_an_empty_view_is_a_table_without_rows(describe: Describe, tmp_path: Path) -> None:
    assert (
        publish(describe(VIEW), tmp_path / "warehouse", pa.table({"n": pa.array([], pa.int64())}))
        == []
    )


def test_only_the_files_of_the_last_run_stay(describe: Describe, tmp_path: Path) -> None:
    pipeline = describe(VIEW)
    for number in range(3):
        assert publish(pipeline, tmp_path / "warehouse", pa.table({"n": [number]}))
    assert len(list(State(pipeline.storage).table("v").glob("*.parquet"))) == 1


def test_a_view_waits_until_all_its_tables_can_be_read(describe: Describe) -> None:
    pipeline = describe("""
        name: x
        tables: {a: {topics: o}, b: {topics: o, format: parquet}}
        views:
          of_a: {sql: SELECT count(*) AS n FROM a}
          of_b: {sql: SELECT count(*) AS n FROM b}
          of_both: {sql: SELECT count(*) AS n FROM a CROSS JOIN b}
    """)

    def ready() -> list[str]:
        return [view.name for view in computable_views(pipeline)]

    a, b = (State(pipeline.storage).table(name) for name in "ab")
    columns = Schema.from_arrow(QUARANTINE_SCHEMA)
    a.mkdir(parents=True)
    assert ready() == []
    DeltaTable.create(str(a), columns)
    assert ready() == ["of_a"]
    ParquetStore(b, ()).prepare(columns)
    (b / STAGING).mkdir()
    pq.write_table(pa.table({"n": [1]}), b / STAGING / "part-0.parquet")
    assert ready() == ["of_a"]
    (b / STAGING / "part-0.parquet").rename(b / "part-0.parquet")
    assert ready() == ["of_a", "of_b", "of_both"]


def test_a_table_that_has_no_files_yet_has_no_rows_for_spark(
    session: SparkSession, tmp_path: Path
) -> None:
    columns = Schema.from_arrow(QUARANTINE_SCHEMA)
    DeltaTable.create(str(tmp_path / "empty"), columns)
    assert session.read.format("tidelog-table").load(str(tmp_path / "empty")).count() == 0
