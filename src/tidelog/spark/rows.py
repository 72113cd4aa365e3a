"""Rows of a DataFrame as records: key, value, headers, topic and partition.

Invariant  What cannot be a record is refused before anything is written, by its column; what only
           shows in a row is refused with the row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from tidelog.spark.errors import OptionError, SinkError

_TEXT = (BinaryType, StringType)
_ALLOWED: dict[str, tuple[type[DataType], ...]] = {
    "key": _TEXT,
    "value": _TEXT,
    "headers": (ArrayType,),
    "topic": (StringType,),
    "partition": (IntegerType, LongType),
}

Headers = list[tuple[str, bytes | None]]


class Row(NamedTuple):
    """One record to be written; `partition` None leaves the choice to the key."""

    topic: str
    key: bytes | None
    value: bytes | None
    headers: Headers | None
    partition: int | None


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse a DataFrame that cannot be written, with what to change."""
    for column in schema.fields:
        if column.name not in _ALLOWED:
            raise OptionError(
                f"schema mismatch: a topic has no column {column.name}; select "
                f"{', '.join(_ALLOWED)}, or put it into value, for example with "
                "to_json(struct(*)) AS value"
            )
        if not isinstance(column.dataType, _ALLOWED[column.name]):
            names = " or ".join(kind.typeName() for kind in _ALLOWED[column.name])
            raise OptionError(
                f"schema mismatch: {column.name} must be {names}, not "
                f"{column.dataType.simpleString()}; cast it"
            )
    if "value" not in schema.fieldNames():
        raise OptionError("schema mismatch: there is no column value, and it is what is written")
    if topic is None and "topic" not in schema.fieldNames():
        raise OptionError("no topic to write to: set the option topic, or select a column topic")


def rows_of(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[Row]:
    """Every row, as bytes; the option `topic` wins over the column."""
    for batch in batches:
        names = batch.schema.names
        columns = [
            _binary(batch, "key") if "key" in names else _nothing(batch),
            _binary(batch, "value"),
            map(_headers, batch.column("headers").to_pylist())
            if "headers" in names
            else _nothing(batch),
            batch.column("partition").to_pylist() if "partition" in names else _nothing(batch),
            batch.column("topic").to_pylist()
            if topic is None
            else (topic for _ in range(batch.num_rows)),
        ]
        for key, value, headers, partition, name in zip(*columns, strict=True):
            if name is None:
                raise SinkError(
                    f"the topic of a row with key {key!r} is null; filter such rows, or set the "
                    "option topic"
                )
            yield Row(name, key, value, headers, partition)


def _binary(batch: pa.RecordBatch, name: str) -> Any:
    column = batch.column(name)
    return (column if pa.types.is_binary(column.type) else column.cast(pa.binary())).to_pylist()


def _nothing(batch: pa.RecordBatch) -> Iterator[None]:
    return (None for _ in range(batch.num_rows))


def _headers(given: list[dict[str, Any]] | None) -> Headers | None:
    return None if given is None else [(each["key"], each["value"]) for each in given]
