"""Proof from topic and table that every record is where it belongs, once.

The records of all committed batches are read again from the topic and go through the same steps;
their positions are compared with those in table and quarantine, each apart. Records that have aged
out of the topic cannot be compared and are counted apart.

Invariant  What cannot be judged is refused, never called clean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from deltalake import DeltaTable
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from tidelog.pipelines.audit.comparison import OUTCOMES, PLACE, PLACES, compared, offsets, outcomes
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Pipeline, Table, TableFormat, TableOutput
from tidelog.pipelines.project.project import read_format
from tidelog.pipelines.project.source_options import (
    assigned,
    client_options,
    ends_now,
    loss_options,
    pinned_start,
    start_json,
)
from tidelog.pipelines.project.transformation import transformation_source
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.decisions import Decisions
from tidelog.spark.source.offsets import Position, Positions

MOST_FINDINGS: Final = 1000


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
    state, table = pipeline.state, pipeline.tables[name]
    ends = _ends(state, table)
    earliest, _ = ends_now(pipeline, name)
    ours = isinstance(table.output, TableOutput)
    try:
        rows = _positions(spark, *read_format(pipeline, table), ours=ours)
    except AnalysisException as error:
        raise PipelineTrouble(
            f"{name} cannot be judged: Spark cannot read it ({str(error).partition(chr(10))[0]}). "
            "If it was never run, run it first"
        ) from error
    refused = _positions(spark, *_quarantine(state, table))
    if ends and not ours:  # one of its flows may be ahead of the other
        end = offsets(spark, ends, "end")
        rows, refused = (_below(each, end) for each in (rows, refused))
    starts = _starts(state, name, ends, earliest)
    expected = _expected(spark, pipeline, project, table, starts, ends)
    found = compared(expected, rows, refused, earliest, ends).persist()
    wrong = F.col("finding").isNotNull()
    listed = found.where(wrong).orderBy(*PLACE).limit(MOST_FINDINGS).collect()
    sums = [F.sum(each) for each in ("records", "rows", "refused")]
    seen = found.agg(*sums, F.count_if(~F.col("there")), F.count_if(wrong)).collect()[0]
    found.unpersist()
    findings = [Finding(name, *(each[key] for key in (*PLACE, "finding"))) for each in listed]
    records, in_table, in_quarantine = (each or 0 for each in seen[:3])
    return TableAudit(name, records, in_table, in_quarantine, seen[3], seen[4], findings)


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
    pipeline: Pipeline,
    project: Path,
    table: Table,
    starts: Positions,
    ends: Positions,
) -> DataFrame:
    """What becomes of the records from the starts to the ends."""
    if not starts:
        return spark.createDataFrame([], OUTCOMES)
    options = {
        **client_options(pipeline),
        **loss_options(pipeline, table.name),
        **assigned(starts),
        "includeLeaderEpoch": "true",
        "startingOffsets": start_json(starts),
        "endingOffsets": start_json({each: ends[each] for each in starts}),
    }
    records = spark.read.format("tidelog").options(**options).load()
    rows = _transformation(pipeline, table.name, project)(records)
    partition_by = table.output.partition_by if isinstance(table.output, TableOutput) else ()
    return outcomes(rows, partition_by)


def _positions(
    spark: SparkSession, form: str, options: Mapping[str, str], *, ours: bool = True
) -> DataFrame:
    """The places of all rows; of a table of ours that is not there, none."""
    if ours and not _is_there(form, options["path"]):
        return spark.createDataFrame([], PLACES)
    reader = spark.read.format(form).options(**options)
    if form == "parquet":  # there may be no file to find the columns in
        reader = reader.schema(PLACES)
    return reader.load().select(*PLACE)


def _is_there(form: str, path: str) -> bool:
    return Path(path).exists() if form == "parquet" else DeltaTable.is_deltatable(path)


def _quarantine(state: State, table: Table) -> tuple[str, dict[str, str]]:
    """The format and the options with which Spark reads what a table refused."""
    output = table.output
    parquet = isinstance(output, TableOutput) and output.format is TableFormat.PARQUET
    path = str(state.quarantine(table.name))
    return "parquet" if parquet else "tidelog-table", {"path": path}


def _below(rows: DataFrame, end: DataFrame) -> DataFrame:
    return rows.join(end, ["_topic", "_partition"]).where("_offset < end").select(*PLACE)


def _ends(state: State, table: Table) -> Positions:
    """How far table and quarantine have come, both; empty if no batch is known."""
    if isinstance(table.output, TableOutput):
        last = Decisions(state.decisions(table.name)).last()
        flow = Checkpoint(state.checkpoints(table.name), table.name)
        if last is None or last.batch not in flow.batches():
            return {}
        return flow.end_of(last.batch)
    flows = [Checkpoint(state.checkpoints(each), each) for each in table.flows]
    if any(each.batches() for each in flows) and not all(each.committed() for each in flows):
        raise PipelineTrouble(
            f"{table.name} cannot be judged: of {' and '.join(table.flows)}, one has no batch that "
            "is known to be done. Run the pipeline; if that does not help, a checkpoint is gone"
        )
    one, other = (each.position() for each in flows)
    return {each: min(end, other[each]) for each, end in one.items() if each in other}


def _transformation(
    pipeline: Pipeline, name: str, project: Path
) -> Callable[[DataFrame], DataFrame]:
    """The function of a table's file, compiled from the same source."""
    path = project / "transformations" / f"{name}.py"
    namespace: dict[str, Any] = {"__file__": str(path), "__name__": name}
    exec(compile(transformation_source(pipeline, name), str(path), "exec"), namespace)
    found: Callable[[DataFrame], DataFrame] = namespace["rows"]
    return found
