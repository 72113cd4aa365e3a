"""Rows of a DataFrame as records: key, value, headers, topic and partition.

Invariant  What cannot be a record is refused before anything is written, by its column; what only
           shows in a row is refused with the row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, NamedTuple

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
_LEFT_OUT: Final = ("offset", "timestamp", "timestampType", "leaderEpoch")
"""What a reader says about a record beyond that: a copy of a topic need not drop it first."""
_HEADERS: Final = "array<struct<key:string,value:binary>>"

_ROWS: Final = 1_000
_SHOWN: Final = 60

_LAST_PARTITION: Final = 2**31 - 1

Header = tuple[str, bytes | None]
Message = dict[str, Any]
"""One record as librdkafka takes it: value, key, and where they are given headers, partition."""


class Rows(NamedTuple):
    """Some rows that go to the same topic, in their order."""

    topic: str
    messages: list[Message]
    size_bytes: int


def check_columns(schema: StructType, topic: str | None) -> None:
    """Refuse a DataFrame that cannot be written, with what to change."""
    for column in schema.fields:
        if column.name in _LEFT_OUT:
            continue
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
        if column.name == "headers" and column.dataType.simpleString() != _HEADERS:
            raise OptionError(
                f"schema mismatch: headers must be {_HEADERS}, not "
                f"{column.dataType.simpleString()}; cast it"
            )
    if "value" not in schema.fieldNames():
        raise OptionError("schema mismatch: there is no column value, and it is what is written")
    if topic is None and "topic" not in schema.fieldNames():
        raise OptionError("no topic to write to: set the option topic, or select a column topic")


def rows_of(batches: Iterable[pa.RecordBatch], topic: str | None) -> Iterator[Rows]:
    """Every row, as bytes; the option `topic` wins over the column."""
    for batch in batches:
        for start in range(0, batch.num_rows, _ROWS):
            some = batch.slice(start, _ROWS)
            messages = _messages(some)
            if topic is not None:
                yield Rows(topic, messages, some.nbytes)
            else:
                yield from _by_topic(messages, some.column("topic").to_pylist(), some.nbytes)


def _messages(batch: pa.RecordBatch) -> list[Message]:
    names = set(batch.schema.names)
    values = _binary(batch, "value")
    if names.isdisjoint({"key", "partition", "headers"}):
        return [{"value": value} for value in values]
    keys = _binary(batch, "key") if "key" in names else [None] * batch.num_rows
    messages: list[Message] = [
        {"value": value, "key": key} for value, key in zip(values, keys, strict=True)
    ]
    for name in ("partition", "headers"):
        if name in names:
            for message, given in zip(messages, batch.column(name).to_pylist(), strict=True):
                if given is not None:
                    message[name] = _CHECKED[name](given, message)
    return messages


def _by_topic(messages: list[Message], topics: list[str | None], size_bytes: int) -> Iterator[Rows]:
    share = size_bytes // max(1, len(messages))
    for topic, group in groupby(zip(topics, messages, strict=True), key=itemgetter(0)):
        some = [message for _, message in group]
        if topic is None:
            raise SinkError(
                f"the topic of a row with {shown(some[0])} is null; filter such rows, or set the "
                "option topic"
            )
        yield Rows(topic, some, share * len(some))


def shown(message: Message) -> str:
    """A record in an error message: by its key, or by how its value begins."""
    name = "value" if message.get("key") is None else "key"
    content = message[name]
    return f"{name} {content if content is None else content[:_SHOWN]!r}"


def _binary(batch: pa.RecordBatch, name: str) -> list[bytes | None]:
    column = batch.column(name)
    found: list[bytes | None] = (
        column if pa.types.is_binary(column.type) else column.cast(pa.binary())
    ).to_pylist()
    return found


def _partition(given: int, message: Message) -> int:
    if not 0 <= given <= _LAST_PARTITION:
        raise SinkError(
            f"the partition of a row with {shown(message)} is {given}, and partitions are numbered "
            "from 0 on; null lets the key choose"
        )
    return given


def _headers(given: list[dict[str, Any] | None], message: Message) -> list[Header]:
    found = []
    for each in given:
        if each is None or each["key"] is None:
            raise SinkError(
                f"a header of a row with {shown(message)} has no key; filter such headers, for "
                "example with filter(headers, h -> h.key is not null)"
            )
        found.append((each["key"], each["value"]))
    return found


_CHECKED: Final[Mapping[str, Callable[[Any, Message], object]]] = {
    "partition": _partition,
    "headers": _headers,
}
