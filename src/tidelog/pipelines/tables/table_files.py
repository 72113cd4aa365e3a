"""Files of a batch, written by tasks where nobody sees them yet.

Invariant  A file is synced before it is reported: what a decision names is on the disk.
Invariant  File names never repeat, so a task that is tried again leaves the first one's alone.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.pipelines.tables.durable import sync_directory
from tidelog.pipelines.tables.partition_values import directory_of, partition_texts

STAGING: Final = "_staging"
"""Hidden from readers of Parquet directories; names from here are moved into the table."""


class FileWritten(NamedTuple):
    """One file: its path below the table, and what a table's log has to know about it."""

    path: str
    size: int
    rows: int
    partition_values: dict[str, str | None]


class TableFiles:
    """The files that one task writes for one table, one per value of its partition columns."""

    def __init__(
        self, table: Path, name: str, partition_by: Sequence[str], *, staged: bool
    ) -> None:
        self._table, self._name = table, name
        self._partition_by = tuple(partition_by)
        self._staged = staged
        self._open: dict[str, tuple[pq.ParquetWriter, dict[str, str | None], list[int]]] = {}

    def write(self, rows: pa.Table) -> None:
        """Append rows, each to the file of its partition."""
        for values, part in self._split(rows):
            directory = directory_of(values)
            body = part.drop_columns(list(self._partition_by)) if self._partition_by else part
            if directory not in self._open:
                path = self._path(directory)
                path.parent.mkdir(parents=True, exist_ok=True)
                writer = pq.ParquetWriter(path, body.schema, compression="zstd")
                self._open[directory] = (writer, values, [0])
            writer, _, count = self._open[directory]
            writer.write_table(body)
            count[0] += part.num_rows

    def close(self) -> list[FileWritten]:
        """Make all files durable and tell about them."""
        found = []
        for directory, (writer, values, count) in self._open.items():
            writer.close()
            path = self._path(directory)
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            for parent in path.parents[: len(self._partition_by) + 1]:
                sync_directory(parent)
            name = f"{directory}/{self._name}" if directory else self._name
            found.append(FileWritten(name, path.stat().st_size, count[0], values))
        return found

    def _path(self, directory: str) -> Path:
        root = self._table / STAGING if self._staged else self._table
        return root / directory / self._name

    def _split(self, rows: pa.Table) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
        if not self._partition_by:
            if rows.num_rows:
                yield {}, rows
            return
        texts = {name: partition_texts(rows[name]) for name in self._partition_by}
        keys = pa.table(texts)
        for group in keys.group_by(list(texts)).aggregate([]).to_pylist():
            chosen = None
            for name, value in group.items():
                column = keys[name]
                same = pc.is_null(column) if value is None else pc.equal(column, value)
                same = pc.fill_null(same, False)
                chosen = same if chosen is None else pc.and_(chosen, same)
            yield group, rows.filter(chosen)


def stats_of(rows: int) -> str:
    """What readers of the log may rely on."""
    return json.dumps({"numRecords": rows})


def file_from(stored: Mapping[str, Any]) -> FileWritten:
    """A file as a decision has written it down."""
    return FileWritten(**stored)
