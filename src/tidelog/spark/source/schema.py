"""The rows a reader gives: the columns of Spark's own connector, and one of ours.

Invariant  Arrow batches have the schema Spark makes of these columns, to the letter; Spark
           refuses any other.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from tidelog.spark.errors import OptionError
from tidelog.spark.options import ReadOptions

HEADERS: Final = ArrayType(
    StructType([StructField("key", StringType()), StructField("value", BinaryType())])
)
COLUMNS: Final[dict[str, DataType]] = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": HEADERS,
    "leaderEpoch": IntegerType(),
}


def read_schema(options: ReadOptions) -> StructType:
    """The columns the options ask for."""
    wanted = options.columns
    if wanted is None:
        hidden = set()
        if not options.include_headers:
            hidden.add("headers")
        if not options.include_leader_epoch:
            hidden.add("leaderEpoch")
        wanted = tuple(name for name in COLUMNS if name not in hidden)
    for name in wanted:
        if name not in COLUMNS:
            raise OptionError(f"columns: there is no column {name}; there are {', '.join(COLUMNS)}")
    if len(set(wanted)) < len(wanted):
        raise OptionError("columns names a column twice")
    return StructType([StructField(name, COLUMNS[name]) for name in wanted])


def require_known_columns(schema: StructType) -> None:
    """A schema given by the user may choose and order columns, not change them."""
    for column in schema.fields:
        if column.name not in COLUMNS:
            raise OptionError(
                f"schema mismatch: there is no column {column.name}; there are {', '.join(COLUMNS)}"
            )
        if column.dataType != COLUMNS[column.name]:
            raise OptionError(
                f"schema mismatch: {column.name} is {COLUMNS[column.name].simpleString()}, not "
                f"{column.dataType.simpleString()}; leave the schema out and cast the column"
            )
