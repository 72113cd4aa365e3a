"""Delta and Parquet tables: adding the files of a batch, once.

Invariant  Adding files that were added before changes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import TableFormat
from tidelog.pipelines.tables.durable import replace_file, sync_directory
from tidelog.pipelines.tables.table_files import STAGING, FileWritten, stats_of
from tidelog.pipelines.tables.table_shape import new_columns, require_partitioning

_RETRIES: Final = 20
_PARQUET_MARK: Final = "_parquet"
"""Tells a Parquet table from the files that a Delta table has before its first commit, and says
what the table is for good."""


class StoredTable(Protocol):
    """A table that batches are added to."""

    path: Path
    staged: bool
    """Whether tasks write into a hidden directory first."""

    def prepare(self, schema: Schema) -> None:
        """Be there, with at least these columns; refuse what the columns there cannot hold."""

    def add(self, query: str, batch: int, files: Sequence[FileWritten]) -> None:
        """Make the files of the batch rows of the table."""


class DeltaStore:
    """One commit per batch; its application transaction tells that it was made."""

    staged = False

    def __init__(self, path: Path, partition_by: Sequence[str]) -> None:
        self.path, self._partition_by = path, list(partition_by)

    def prepare(self, schema: Schema) -> None:
        if not DeltaTable.is_deltatable(str(self.path)):
            if (self.path / _PARQUET_MARK).exists():
                raise _other_format(self.path, TableFormat.PARQUET, TableFormat.DELTA)
            DeltaTable.create(
                str(self.path), schema, mode="ignore", partition_by=self._partition_by
            )
        table = DeltaTable(str(self.path))
        require_partitioning(self.path.name, table.metadata().partition_columns, self._partition_by)
        if new := new_columns(self.path.name, table.schema(), schema):
            table.alter.add_columns(new)

    def add(self, query: str, batch: int, files: Sequence[FileWritten]) -> None:
        table = DeltaTable(str(self.path))
        done = table.transaction_version(query)
        if not files or (done is not None and done >= batch):
            return
        now_ms = int(time.time() * 1000)
        actions = [
            AddAction(
                each.path, each.size, each.partition_values, now_ms, True, stats_of(each.rows)
            )
            for each in files
        ]
        table.create_write_transaction(
            list(actions),
            mode="append",
            schema=table.schema(),
            partition_by=self._partition_by,
            commit_properties=CommitProperties(
                app_transactions=[Transaction(query, batch)], max_commit_retries=_RETRIES
            ),
        )


class ParquetStore:
    """Files are moved into the table; one that is not staged any more has been moved before."""

    staged = True

    def __init__(self, path: Path, partition_by: Sequence[str]) -> None:
        self.path, self._partition_by = path, list(partition_by)

    def prepare(self, schema: Schema) -> None:
        if DeltaTable.is_deltatable(str(self.path)):
            raise _other_format(self.path, TableFormat.DELTA, TableFormat.PARQUET)
        mark = self.path / _PARQUET_MARK
        there = Schema([])
        if mark.exists():
            stored = json.loads(mark.read_text(encoding="utf-8"))
            require_partitioning(self.path.name, stored["partition_by"], self._partition_by)
            there = Schema.from_json(json.dumps(stored["schema"]))
        if (new := new_columns(self.path.name, there, schema)) or not mark.exists():
            columns = json.loads(Schema([*there.fields, *new]).to_json())
            replace_file(mark, json.dumps({"partition_by": self._partition_by, "schema": columns}))

    def add(self, query: str, batch: int, files: Sequence[FileWritten]) -> None:
        for each in files:
            staged, target = self.path / STAGING / each.path, self.path / each.path
            if staged.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                os.replace(staged, target)
                sync_directory(target.parent)
            elif not target.exists():
                raise PipelineTrouble(
                    f"{target} is gone before batch {batch} was whole: rows of {self.path.name} "
                    "are lost. Run with --full-refresh to build the table anew"
                )


def stored_table(path: Path, form: TableFormat, partition_by: Sequence[str]) -> StoredTable:
    """The table at a path."""
    if form is TableFormat.DELTA:
        return DeltaStore(path, partition_by)
    return ParquetStore(path, partition_by)


def written_path(table: StoredTable, file: FileWritten) -> Path:
    """Where a task has written a file."""
    return (table.path / STAGING if table.staged else table.path) / file.path


def discard(table: StoredTable, files: Sequence[FileWritten]) -> None:
    """Remove files that no decision names."""
    for each in files:
        written_path(table, each).unlink(missing_ok=True)


def clear_staging(table: StoredTable) -> None:
    """Remove what tasks left behind that no decision names."""
    if table.staged:
        shutil.rmtree(table.path / STAGING, ignore_errors=True)


def _other_format(path: Path, there: TableFormat, wanted: TableFormat) -> PipelineTrouble:
    return PipelineTrouble(
        f"{path.name} is a {there} table and would be {wanted}: run with --full-refresh"
    )


def compact(path: Path, most_files: int) -> bool:
    """Merge small files of a Delta table once there are more than so many; tells whether it did."""
    if not DeltaTable.is_deltatable(str(path)):  # no batch has come yet
        return False
    table = DeltaTable(str(path))
    if len(table.file_uris()) <= most_files:
        return False
    return int(table.optimize.compact()["numFilesRemoved"]) > 0
