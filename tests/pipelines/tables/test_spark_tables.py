"""Tables of formats that the user's Spark brings: described, generated, and never dropped by us."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.pipelines.conftest import Describe, Mistakes

from tidelog.pipelines.audit.comparing import _ends
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.picture import as_text
from tidelog.pipelines.description.spec import SparkOutput
from tidelog.pipelines.project.project import read_format, table_source, write_project
from tidelog.pipelines.run.backfill import request_backfill
from tidelog.pipelines.run.refresh import request_refresh
from tidelog.pipelines.run.running import targets
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.views import computable_views

ICEBERG = """
name: shop
tables:
  a: {topics: o, decode: text, format: {spark: iceberg, path: lake.db.orders, fanout-enabled: true}}
  b: {from: a, format: {spark: delta}}
views: {v: {sql: SELECT value FROM a}}
"""


def test_a_format_of_sparks_is_written_beside_a_quarantine_of_ours(
    describe: Describe, tmp_path: Path
) -> None:
    pipeline = describe(ICEBERG)
    a, b = pipeline.tables.values()
    assert isinstance(a.output, SparkOutput) and a.output.format == "iceberg"
    source = table_source(pipeline, a)
    assert 'dp.create_sink("a_sink", "iceberg", {' in source
    assert "'path': 'lake.db.orders'" in source and "'fanout-enabled': 'true'" in source
    assert "return steps.table_rows(rows(records))" in source
    assert 'dp.create_sink("a_quarantine_sink", "tidelog-table", {' in source
    assert read_format(pipeline, b) == ("delta", {"path": str(pipeline.storage / "b")})
    assert list(targets(pipeline)) == ["a_quarantine", "b_quarantine"]
    assert "+-- table a (iceberg of Spark)\n    otherwise -> a_quarantine" in as_text(pipeline)
    write_project(pipeline, tmp_path / "project")
    views = (tmp_path / "project" / "views" / "transformations" / "tables.py").read_text()
    assert 'spark.read.format("iceberg").options(**options).load()' in views


def plan(state: State, flow: str, batch: int, offset: int, *, committed: bool) -> None:
    for kind in ("offsets", "commits"):
        (state.checkpoints(flow) / flow / "0" / kind).mkdir(parents=True, exist_ok=True)
    directory = state.checkpoints(flow) / flow / "0"
    (directory / "offsets" / str(batch)).write_text(f'v1\n{{}}\n{{"o": {{"0": {offset}}}}}')
    if committed:
        (directory / "commits" / str(batch)).write_text("v1")


def test_an_audit_goes_as_far_as_both_flows_have_come(describe: Describe) -> None:
    pipeline = describe(ICEBERG)
    state, table = State(pipeline.storage), pipeline.tables["a"]
    assert _ends(state, table) == {}
    plan(state, "a", 0, 10, committed=True)
    plan(state, "a", 1, 20, committed=True)
    plan(state, "a_quarantine", 0, 15, committed=False)
    with pytest.raises(PipelineTrouble, match="cannot be judged: of a and a_quarantine, one has"):
        _ends(state, table)
    plan(state, "a_quarantine", 0, 15, committed=True)
    plan(state, "a_quarantine", 1, 20, committed=False)
    assert [each.offset for each in _ends(state, table).values()] == [15]


def test_a_view_waits_for_the_first_batch(describe: Describe) -> None:
    pipeline = describe(ICEBERG)
    assert computable_views(pipeline) == []
    plan(State(pipeline.storage), "a", 0, 10, committed=True)
    assert [each.name for each in computable_views(pipeline)] == ["v"]


def test_a_table_of_sparks_is_dropped_by_its_owner_alone_and_never_backfilled(
    describe: Describe,
) -> None:
    with pytest.raises(PipelineTrouble, match="a table of Spark's iceberg, whose sink may take"):
        request_backfill(describe(ICEBERG), ["a"], "earliest", print)
    with pytest.raises(
        PipelineTrouble, match="a table of Spark's iceberg, which only you can drop"
    ):
        request_refresh(describe(ICEBERG), ["a"])


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("format: {path: x}", "3: format names one of Spark's"),
        ("format: {spark: delta}, partition_by: value", "3: partition_by belongs to the table"),
        ("format: {spark: delta}, compact_files: 8", "3: compact_files belongs to the table"),
    ],
)
def test_what_spark_has_to_know_is_asked_of_the_table(
    mistakes: Mistakes, table: str, expected: str
) -> None:
    (found,) = mistakes(f"name: x\ntables:\n  a: {{topics: o, decode: text, {table}}}")
    assert found.startswith(expected)
