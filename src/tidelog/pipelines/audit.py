"""Proof from topic and table that every record is where it belongs, once.

The records of all committed batches are read again from the topic and go through the same steps;
their positions are compared with those in table and quarantine. Records that have aged out of the
topic cannot be compared and are counted apart.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidelog.pipelines.checkpoints import Checkpoint
from tidelog.pipelines.decisions import Decisions
from tidelog.pipelines.project import read_format
from tidelog.pipelines.source_options import (
    client_options,
    ends_now,
    loss_options,
    pinned_start,
    start_json,
)
from tidelog.pipelines.spec import OUTCOME, Pipeline, SparkOutput, Table, TableFormat, TableOutput
from tidelog.pipelines.state import State
from tidelog.pipelines.steps import DROPPED
from tidelog.pipelines.transformation import transformation
from tidelog.spark.offsets import Position, Positions

MOST_FINDINGS: Final = 1000
_PLACE: Final = ("_topic", "_partition", "_offset")


class Finding(NamedTuple):
    """One record that is not where it belongs."""

    table: str
    topic: str
    partition: int
    offset: int
    finding: str


class TableAudit(NamedTuple):
    """What the audit of one table has looked at."""

    table: str
    records: int
    rows: int
    quarantined: int
    aged_out: int
    found: int
    """How many records are not where they belong."""
    findings: list[Finding]
    """The first of them."""


def audit_table(spark: SparkSession, pipeline: Pipeline, project: Path, name: str) -> TableAudit:
    """Compare the table with its topics, up to its last committed batch."""
    state = State(pipeline.storage)
    ends = _ends(state, pipeline.tables[name])
    if not ends:
        return TableAudit(name, 0, 0, 0, 0, 0, [])
    earliest, _ = ends_now(pipeline, name)
    starts = _starts(state, name, ends, earliest)
    table = pipeline.tables[name]
    rows = _positions(spark, *read_format(pipeline, table))
    refused = _positions(spark, *_quarantine(state, table))
    if isinstance(table.output, SparkOutput):  # one of its flows may be ahead of the other
        end = _offsets(spark, ends, "end")
        rows, refused = (_below(each, end) for each in (rows, refused))
    rows_of = transformation(pipeline, name, project)
    reading = {**client_options(pipeline), **loss_options(pipeline, name)}
    expected = _expected(spark, reading, rows_of, starts, ends)
    compared = (
        expected.groupBy(*_PLACE)
        .agg(F.count("*").alias("records"), F.count_if(_kept()).alias("expected"))
        .join(_counted(rows, "rows"), list(_PLACE), "full")
        .join(_counted(refused, "refused"), list(_PLACE), "full")
        .na.fill(0)
        .join(_offsets(spark, earliest, "first"), ["_topic", "_partition"], "left")
        .persist()
    )
    there = F.col("_offset") >= F.coalesce(F.col("first"), F.lit(2**62))
    wrong = there & (F.col("rows") + F.col("refused") != F.col("expected"))
    listed = compared.where(wrong).orderBy(*_PLACE).limit(MOST_FINDINGS).collect()
    sums = [F.sum(each) for each in ("records", "rows", "refused")]
    seen = compared.agg(*sums, F.count_if(~there), F.count_if(wrong)).collect()[0]
    compared.unpersist()
    findings = [
        Finding(
            name,
            each["_topic"],
            each["_partition"],
            each["_offset"],
            _words(each["expected"], each["rows"], each["refused"]),
        )
        for each in listed
    ]
    records, in_table, in_quarantine = (each or 0 for each in seen[:3])
    return TableAudit(name, records, in_table, in_quarantine, seen[3], seen[4], findings)


def _kept() -> Column:
    return F.col(OUTCOME).isNull() | (F.col(OUTCOME) != DROPPED)


def _words(expected: int, rows: int, refused: int) -> str:
    if rows + refused == 0:
        return "lost: neither in the table nor in quarantine"
    if rows and refused:
        return "doubled: in the table and in quarantine"
    if expected == 0:
        return "in the table or in quarantine, although the steps drop it or the topic lacks it"
    return f"doubled: {rows + refused} times in {'the table' if rows else 'quarantine'}"


def _starts(state: State, name: str, ends: Positions, earliest: Positions) -> Positions:
    """Where the table began, or the first record that is still there."""
    began = pinned_start(state, name)
    return {
        each: Position(
            min(max(began.get(each, Position(0)).offset, earliest[each].offset), end.offset)
        )
        for each, end in ends.items()
        if each in earliest
    }


def _expected(
    spark: SparkSession,
    reading: Mapping[str, str],
    rows_of: Callable[[DataFrame], DataFrame],
    starts: Positions,
    ends: Positions,
) -> DataFrame:
    assigned: dict[str, list[int]] = {}
    for each in starts:
        assigned.setdefault(each.topic, []).append(each.partition)
    options = {
        **reading,
        "assign": json.dumps(assigned),
        "includeLeaderEpoch": "true",
        "startingOffsets": start_json(starts),
        "endingOffsets": start_json({each: ends[each] for each in starts}),
    }
    records = spark.read.format("tidelog").options(**options).load()
    return rows_of(records).select(*_PLACE, OUTCOME)


def _positions(spark: SparkSession, form: str, options: Mapping[str, str]) -> DataFrame:
    reader = spark.read.format(form).options(**options)
    if form == "parquet":  # there may be no file to find the columns in
        reader = reader.schema("_topic string, _partition int, _offset bigint")
    return reader.load().select(*_PLACE)


def _quarantine(state: State, table: Table) -> tuple[str, dict[str, str]]:
    """The format and the options with which Spark reads what a table refused."""
    output = table.output
    parquet = isinstance(output, TableOutput) and output.format is TableFormat.PARQUET
    path = str(state.quarantine(table.name))
    return "parquet" if parquet else "tidelog-table", {"path": path}


def _below(rows: DataFrame, end: DataFrame) -> DataFrame:
    return rows.join(end, ["_topic", "_partition"]).where("_offset < end").select(*_PLACE)


def _ends(state: State, table: Table) -> Positions:
    """How far table and quarantine have come, both; empty before the first batch."""
    if isinstance(table.output, TableOutput):
        last = Decisions(state.decisions(table.name)).last()
        flow = Checkpoint(state.checkpoints(table.name), table.name)
        return {} if last is None else flow.end_of(last.batch)
    one, other = (Checkpoint(state.checkpoints(each), each).position() for each in table.flows)
    return {each: min(end, other[each]) for each, end in one.items() if each in other}


def _counted(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy(*_PLACE).agg(F.count("*").alias(name))


def _offsets(spark: SparkSession, positions: Positions, name: str) -> DataFrame:
    rows = [(each.topic, each.partition, position.offset) for each, position in positions.items()]
    return spark.createDataFrame(rows, f"_topic string, _partition int, {name} bigint")
