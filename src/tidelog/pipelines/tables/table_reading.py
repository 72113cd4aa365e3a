"""Delta tables as rows of Spark, without a jar: one task per file.

Invariant  All tasks of a query read one version of the table, the one the driver saw.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql.datasource import DataSourceReader, InputPartition

from tidelog.pipelines.description.mistakes import PipelineTrouble


class TableFile(InputPartition):
    """One file, with the values of the columns that its directory stands for."""

    def __init__(self, path: str, values: dict[str, Any]) -> None:
        self.path, self.values = path, values


class DeltaReader(DataSourceReader):
    """Plans on the driver which files there are, reads them on executors."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._schema = delta_schema(path)

    def partitions(self) -> Sequence[InputPartition]:
        table = DeltaTable(self._path)
        by = table.metadata().partition_columns
        added = pa.table(table.get_add_actions()).to_pylist()
        return [
            TableFile(
                str(Path(self._path) / unquote(each["path"])),
                {name: (each["partition"] or {}).get(name) for name in by},
            )
            for each in added
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, TableFile):  # Spark's own, of a table without files
            return
        with pq.ParquetFile(partition.path) as file:
            for batch in file.iter_batches():
                yield self._whole(batch, partition.values)

    def _whole(self, batch: pa.RecordBatch, values: dict[str, Any]) -> pa.RecordBatch:
        columns = []
        for field in self._schema:
            if field.name in values:
                scalar = pa.scalar(values[field.name], field.type)
                columns.append(pa.repeat(scalar, batch.num_rows))
            elif field.name in batch.schema.names:
                columns.append(batch[field.name].cast(field.type))
            else:  # the file is older than the column
                columns.append(pa.nulls(batch.num_rows, field.type))
        return pa.record_batch(columns, schema=self._schema)


def delta_schema(path: str) -> pa.Schema:
    """The columns of the table now, in the types Spark uses."""
    if not DeltaTable.is_deltatable(path):
        raise PipelineTrouble(f"there is no Delta table at {path}")
    found = pa.schema(DeltaTable(path).schema().to_arrow())
    return pa.schema([pa.field(each.name, _plain(each.type)) for each in found])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type with the field names and sizes that Spark gives."""
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_plain(kind.key_type), _plain(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([(each.name, _plain(each.type)) for each in kind])
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
