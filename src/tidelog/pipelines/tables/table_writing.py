"""Writing tables from Spark: tasks write files, the driver makes them a batch.

Invariant  Making a writer does nothing: Spark makes one before each batch and another one in every
           process that commits. What one must tell the other travels in commit messages.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import OUTCOME, POSITION, TableFormat
from tidelog.pipelines.project.steps import DROPPED
from tidelog.pipelines.tables.decisions import Counts
from tidelog.pipelines.tables.partition_values import misfits
from tidelog.pipelines.tables.table_commit import (
    QUARANTINE_SCHEMA,
    PartWritten,
    TableCommit,
    TableTarget,
)
from tidelog.pipelines.tables.table_files import TableFiles

OPTIONS: Final = ("path", "quarantine", "decisions", "format", "partition_by", "backfill")
_REQUIRED: Final = ("path", "decisions")
_SPARKS_OWN: Final = ("queryname", "checkpointlocation")


def target_of(options: Mapping[str, str]) -> TableTarget:
    """Where a sink writes."""
    given = {name: text for name, text in options.items() if name not in _SPARKS_OWN}
    for name in given:
        if name not in OPTIONS:
            raise PipelineTrouble(f"tidelog-table has no option {name}; {nearest(name, OPTIONS)}")
    for name in _REQUIRED:
        if name not in given:
            raise PipelineTrouble(f"tidelog-table needs the option {name}")
    return TableTarget(
        table=Path(given["path"]),
        quarantine=Path(given["quarantine"]) if "quarantine" in given else None,
        decisions=Path(given["decisions"]),
        format=TableFormat(given.get("format", TableFormat.DELTA)),
        partition_by=tuple(json.loads(given.get("partition_by", "[]"))),
        backfill=json.loads(given.get("backfill", "false")),
    )


class Task(Protocol):
    """What Spark tells a task about itself: a part of its `TaskContext`."""

    def getLocalProperty(self, key: str) -> str | None:  # noqa: N802
        """A property of the query."""

    def partitionId(self) -> int:  # noqa: N802
        """Which of the tasks of the batch it is."""


class PartMessage(WriterCommitMessage):
    """What a task tells the driver."""

    def __init__(self, part: PartWritten) -> None:
        self.part = part


class TableWriter(DataSourceStreamArrowWriter):
    """Tasks write files, the driver makes them a batch."""

    commit_type = TableCommit

    def __init__(self, target: TableTarget, schema: StructType) -> None:
        self._target = target
        fields = to_arrow_schema(schema, timezone="UTC")
        hidden = () if target.quarantine is None else ("_key", "_value", OUTCOME)
        self._columns = pa.schema(
            [pa.field(each.name, each.type) for each in fields if each.name not in hidden]
        )

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = TaskContext.get()
        return PartMessage(write_part(self._target, self._columns, iterator, task))

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.commit_type(self._target).commit(batchId, self._columns, _parts(messages))

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self.commit_type(self._target).abort(batchId, _parts(messages))


def write_part(
    target: TableTarget, columns: pa.Schema, batches: Iterator[pa.RecordBatch], task: Task | None
) -> PartWritten:
    """The files of one task: rows of the table, and what goes to quarantine."""
    query = None if task is None else task.getLocalProperty("sql.streaming.queryId")
    number = None if task is None else task.getLocalProperty("streaming.sql.batchId")
    if task is None or query is None or number is None:
        raise PipelineTrouble("tidelog-table is written by streaming queries only")
    name = f"part-{int(number):05d}-{task.partitionId():05d}-{os.urandom(8).hex()}.parquet"
    table, quarantine = target.stores()
    good = TableFiles(table.path, name, target.partition_by, staged=table.staged)
    bad = TableFiles(quarantine.path, name, (), staged=quarantine.staged)
    counts = Counts()
    for batch in batches:
        rows = pa.Table.from_batches([batch])
        if target.quarantine is None:
            good.write(rows.cast(columns))
            counts += Counts(quarantined=rows.num_rows)
            continue
        outcome = pc.coalesce(rows[OUTCOME], misfits(rows, target.partition_by))
        rows = rows.set_column(rows.column_names.index(OUTCOME), OUTCOME, outcome)
        passed = rows.filter(pc.is_null(outcome))
        failed = rows.filter(pc.fill_null(pc.not_equal(outcome, DROPPED), False))
        good.write(passed.select(columns.names).cast(columns))
        bad.write(_quarantine_rows(failed))
        counts += Counts(
            rows=passed.num_rows,
            quarantined=failed.num_rows,
            dropped=rows.num_rows - passed.num_rows - failed.num_rows,
        )
    return PartWritten(
        query=query,
        table_files=tuple(good.close()),
        quarantine_files=tuple(bad.close()),
        counts=counts,
    )


def _quarantine_rows(failed: pa.Table) -> pa.Table:
    wanted = [OUTCOME, *POSITION, "_key", "_value"]
    return failed.select(wanted).rename_columns(QUARANTINE_SCHEMA.names).cast(QUARANTINE_SCHEMA)


def _parts(messages: list[WriterCommitMessage | None]) -> list[PartWritten]:
    return [each.part for each in messages if isinstance(each, PartMessage)]
