"""Rows of a DataFrame as records: which columns, which types, and what becomes of them."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, StringType, StructType

from tidelog.spark.errors import OptionError, SinkError
from tidelog.spark.sink.rows import check_columns, rows_of
from tidelog.spark.source.schema import COLUMNS, HEADERS


def test_whatever_a_reader_gives_can_be_written_as_it_is() -> None:
    schema = StructType()
    for name, kind in COLUMNS.items():
        schema = schema.add(name, kind)
    check_columns(schema, "copy")
    batch = pa.RecordBatch.from_pydict(
        {"key": [b"k", None], "value": [b"v", None], "partition": [1, 0], "offset": [7, 8],
         "headers": [[{"key": "h", "value": b"x"}], None]}
    )  # fmt: skip
    (rows,) = rows_of([batch], "copy")
    assert rows.messages == [
        {"key": b"k", "value": b"v", "partition": 1, "headers": [("h", b"x")]},
        {"key": None, "value": None, "partition": 0},
    ]


@pytest.mark.parametrize(
    ("schema", "fix"),
    [
        (StructType().add("price", "integer"), "to_json"),
        (StructType().add("value", "integer"), "value must be binary or string, not int; cast it"),
        (StructType().add("value", "string").add("partition", "string"), "partition must be"),
        (
            StructType().add("value", "string").add("headers", ArrayType(StringType())),
            "headers must be array<struct<key:string,value:binary>>, not array<string>",
        ),
        (StructType().add("key", "string"), "there is no column value"),
    ],
)
def test_what_cannot_be_a_record_is_refused_by_column(schema: StructType, fix: str) -> None:
    with pytest.raises(OptionError) as caught:
        check_columns(schema, "orders")
    assert fix in str(caught.value)


def test_every_row_needs_a_topic() -> None:
    schema = StructType().add("value", "string")
    with pytest.raises(OptionError, match="set the option topic, or select a column topic"):
        check_columns(schema, None)
    check_columns(schema.add("topic", "string").add("headers", HEADERS), None)
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b", "c"], "topic": ["x", "x", None]})
    rows = rows_of([batch], None)
    first = next(rows)
    assert (first.topic, [each["value"] for each in first.messages]) == ("x", [b"a", b"b"])
    with pytest.raises(SinkError, match="the topic of a row with value b'c' is null"):
        next(rows)
    (given,) = rows_of([batch], "y")
    assert (given.topic, len(given.messages)) == ("y", 3), "the option wins over the column"


@pytest.mark.parametrize("partition", [-1, 2**31, 2**40])
def test_a_partition_that_no_topic_can_have_is_refused_with_the_row(partition: int) -> None:
    batch = pa.RecordBatch.from_pydict(
        {"value": ["a", "b"], "key": ["first", "second"], "partition": [2**31 - 1, partition]}
    )
    expected = f"the partition of a row with key b'second' is {partition}, "
    with pytest.raises(SinkError, match=expected):
        list(rows_of([batch], "orders"))


@pytest.mark.parametrize("header", [{"key": None, "value": b"x"}, None])
def test_a_header_without_a_key_is_refused_with_the_row(header: object) -> None:
    named = {"key": "h", "value": None}
    batch = pa.RecordBatch.from_pydict({"value": ["a", "b"], "headers": [[named], [named, header]]})
    with pytest.raises(SinkError, match="a header of a row with value b'b' has no key; filter"):
        list(rows_of([batch], "orders"))
