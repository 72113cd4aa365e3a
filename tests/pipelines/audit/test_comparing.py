"""The audit's comparison: where each record belongs, beside where it is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from tests.pipelines.conftest import Describe
from tests.pipelines.memory_topics import MemoryTopics

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.audit.comparing import TableAudit, audit_table
from tidelog.pipelines.audit.comparison import OUTCOMES, PLACES, compared, outcomes
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import OUTCOME
from tidelog.pipelines.project.steps import DROPPED
from tidelog.pipelines.run.state import State
from tidelog.spark.source.offsets import Position

pytestmark = pytest.mark.usefixtures("spark")

ONE = TopicPartition("orders", 0)
GOOD, BAD = None, "rule broken: r"
FIRST, END = 10, 30
"""Offsets below the first have aged out; the committed batches end before the last."""


class Case(NamedTuple):
    """A record, what is expected of it, and what is wrong."""

    expected: list[str | None]
    rows: int
    refused: int
    finding: str | None


CASES = {
    1: Case([], 1, 0, None),
    2: Case([], 0, 1, None),
    3: Case([], 2, 0, "doubled: 2 times in the table"),
    4: Case([], 0, 3, "doubled: 3 times in quarantine"),
    5: Case([], 1, 1, "doubled: in the table and in quarantine"),
    11: Case([GOOD], 1, 0, None),
    12: Case([BAD], 0, 1, None),
    13: Case([DROPPED], 0, 0, None),
    14: Case([GOOD], 0, 0, "lost: neither in the table nor in quarantine"),
    15: Case([BAD], 0, 0, "lost: neither in the table nor in quarantine"),
    16: Case([GOOD], 2, 0, "doubled: 2 times in the table"),
    17: Case([GOOD], 1, 1, "doubled: in the table and in quarantine"),
    18: Case([GOOD], 0, 1, "in quarantine, although it belongs into the table"),
    19: Case([BAD], 1, 0, "in the table, although it belongs into quarantine"),
    20: Case([DROPPED], 1, 0, "in the table, although the steps drop it or the topic lacks it"),
    21: Case([], 0, 1, "in quarantine, although the steps drop it or the topic lacks it"),
    30: Case([], 1, 0, "in the table, although no batch that is known brought it"),
    31: Case([], 0, 1, "in quarantine, although no batch that is known brought it"),
}


def test_each_record_is_once_on_its_own_side(session: SparkSession) -> None:
    cases = CASES.items()
    expected = [("orders", 0, offset, each) for offset, case in cases for each in case.expected]
    rows = [("orders", 0, offset) for offset, case in cases for _ in range(case.rows)]
    refused = [("orders", 0, offset) for offset, case in cases for _ in range(case.refused)]
    found = compared(
        session.createDataFrame(expected, OUTCOMES),
        session.createDataFrame(rows, PLACES),
        session.createDataFrame(refused, PLACES),
        {ONE: Position(FIRST)},
        {ONE: Position(END)},
    ).collect()
    assert {each._offset: each.finding for each in found} == {
        offset: case.finding for offset, case in cases
    }
    assert {each._offset for each in found if not each.there} == {1, 2, 3, 4, 5}


def test_rows_that_no_partition_takes_belong_into_quarantine(session: SparkSession) -> None:
    long = "x" * 300
    rows = [
        ("orders", 0, 0, None, "at"),
        ("orders", 0, 1, None, long),
        ("orders", 0, 2, "no", long),
    ]
    given = session.createDataFrame(rows, f"{OUTCOMES}, country string")
    found = outcomes(given, ["country", "_topic"]).orderBy("_offset").collect()
    assert [each[OUTCOME] for each in found] == [
        None, "country cannot be a partition value of the table", "no",
    ]  # fmt: skip
    assert [each[OUTCOME] for each in outcomes(given, []).collect()] == [None, None, "no"]


SPARKS = "{spark: parquet}"


@pytest.fixture
def audited(describe: Describe, session: SparkSession, tmp_path: Path) -> Any:
    """The audit of a table with these rows, of which nothing else is left."""
    topics = MemoryTopics({"orders": 1}, {ONE: Position(1)}, {ONE: Position(3)})

    def run(form: str, rows: int | None) -> TableAudit:
        described = describe(f"name: x\ntables: {{orders: {{topics: orders, format: {form}}}}}")
        pipeline = replace(described, topics=lambda _: topics)
        path = State(pipeline.storage).table("orders")
        if rows is not None:
            columns = {"_topic": ["orders"] * rows, "_partition": pa.array([0] * rows, pa.int32()),
                       "_offset": pa.array(range(rows), pa.int64())}  # fmt: skip
            path.mkdir(parents=True)
            if form == "delta":
                write_deltalake(str(path), pa.table(columns))
            else:
                pq.write_table(pa.table(columns), path / "part.parquet")
        return audit_table(session, pipeline, tmp_path, "orders")

    return run


@pytest.mark.parametrize("form", ["delta", "parquet", SPARKS])
def test_rows_of_a_table_whose_decisions_or_checkpoints_are_gone_are_findings(
    audited: Any, form: str
) -> None:
    found = audited(form, 3)
    assert (found.records, found.rows, found.quarantined, found.found) == (0, 3, 0, 3)
    assert [each.offset for each in found.findings] == [0, 1, 2]
    assert {each.finding for each in found.findings} == {
        "in the table, although no batch that is known brought it"
    }


@pytest.mark.parametrize("form", ["delta", "parquet"])
@pytest.mark.parametrize("rows", [None, 0])
def test_a_table_before_its_first_batch_has_no_findings(
    audited: Any, form: str, rows: int | None
) -> None:
    assert audited(form, rows) == TableAudit("orders", 0, 0, 0, 0, 0, [])


def test_a_table_that_nobody_can_read_is_not_called_clean(audited: Any) -> None:
    with pytest.raises(PipelineTrouble, match="orders cannot be judged: Spark cannot read it"):
        audited(SPARKS, None)
