"""What a table does to its records, as functions from rows to rows.

A generated project calls them one after the other; so does the audit, over a batch.

Invariant  One record is one row from `records` to the sink. A row that failed, or that a step
           dropped, stays, with the reason in `_outcome`; the sink puts it where it belongs.
Invariant  The same record gives the same row, whenever and wherever it is computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidelog.pipelines.description.spec import CORRUPT, DECODED, OUTCOME, RECORD, Column

DROPPED: Final = "dropped"
"""The outcome of a row that a step leaves out on purpose."""

_SOURCE: Final = ("topic", "partition", "offset", "leaderEpoch", "timestamp", "key", "value")
_TEXT: Final = "cast(_value as string)"
_MARK: Final = "sha2(_value, 256)"
"""Set behind a value before it is parsed. A parser that meets it in its place has read the whole
value; none can hold its own digest."""
_QUOTED: Final = r'(?s)"[^"\\]*+(?:\\.[^"\\]*+)*+"'
"""What may hold the end of a line in comma-separated values."""


def records(rows: DataFrame) -> DataFrame:
    """Rows of the `tidelog` source under the names that pipelines use."""
    named = [F.col(before).alias(after) for before, after in zip(_SOURCE, RECORD, strict=True)]
    return rows.select(*named, F.lit(None).cast("string").alias(OUTCOME))


def decode_raw(rows: DataFrame) -> DataFrame:
    """Key and value as they are."""
    return rows.withColumns({"key": F.col("_key"), "value": F.col("_value")})


def decode_text(rows: DataFrame) -> DataFrame:
    """The value as text."""
    decoded = rows.withColumn("value", F.expr(_TEXT))
    return _reason(decoded, ~F.expr(f"is_valid_utf8({_TEXT})"), F.lit("the value is not UTF-8"))


def decode_json(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    """The value as a JSON object."""
    options = {"columnNameOfCorruptRecord": CORRUPT}
    parsed = F.from_json(F.expr(_TEXT), _ddl(columns), options)
    marked = F.expr(f"""concat('[', {_TEXT}, ',"', {_MARK}, '"]')""")
    alone = F.get(F.from_json(marked, "array<string>"), F.lit(1)).eqNullSafe(F.expr(_MARK))
    not_json = F.expr(f"try_parse_json({_TEXT}) is null")
    misfits = F.concat_ws(
        ", ",
        *(
            F.when(
                F.get_json_object(F.expr(_TEXT), f"$['{each.name}']").isNotNull()
                & F.col(f"{DECODED}.`{each.name}`").isNull(),
                F.lit(f"{each.name} is not {each.type}"),
            )
            for each in columns
        ),
    )
    is_object = F.expr(f"ltrim(' \\n\\r\\t', {_TEXT})").startswith("{")
    why = (
        F.when(not_json, F.lit("the value is not JSON"))
        .when(~is_object, F.lit("the value is not a JSON object"))
        .when(~alone, F.lit("the value goes on behind a JSON object"))
        .otherwise(F.concat(F.lit("the value does not fit the schema: "), misfits))
    )
    return _decoded(rows, parsed, columns, is_object & alone, why)


def decode_csv(rows: DataFrame, columns: Sequence[Column], delimiter: str = ",") -> DataFrame:
    """The value as one line of comma-separated values."""
    options = {"columnNameOfCorruptRecord": CORRUPT, "delimiter": delimiter}
    line = F.expr(f"rtrim('\\r\\n', {_TEXT})")
    parsed = F.from_csv(line, _ddl(columns), options)
    alone = ~F.regexp_replace(line, _QUOTED, "").rlike("[\r\n]")
    fields = ", ".join(f"{each.name} {each.type}" for each in columns)
    return _decoded(rows, parsed, columns, alone, F.lit(f"the value is not a line of {fields}"))


def decoded_by(rows: DataFrame, udf: SparkColumn, columns: Sequence[Column]) -> DataFrame:
    """The value as a Python function decodes it: a struct with the reason of a failure in it."""
    found = rows.withColumn(DECODED, udf)
    found = _reason(found, F.col(f"{DECODED}.{OUTCOME}").isNotNull(), F.col(f"{DECODED}.{OUTCOME}"))
    return _unpacked(found, columns)


def with_columns(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """Columns added or replaced."""
    return rows.withColumns({name: F.expr(text) for name, text in columns.items()})


def where(rows: DataFrame, condition: str) -> DataFrame:
    """Rows for which the condition is not true are dropped."""
    return _reason(rows, ~F.coalesce(F.expr(condition), F.lit(False)), F.lit(DROPPED))


def select(rows: DataFrame, columns: Mapping[str, str]) -> DataFrame:
    """These columns only; the record's own stay."""
    wanted = [F.expr(text).alias(name) for name, text in columns.items()]
    return rows.select(*wanted, *RECORD, OUTCOME)


def rule(rows: DataFrame, name: str, condition: str) -> DataFrame:
    """A row for which the condition is not true goes to quarantine; null is not true."""
    broken = ~F.coalesce(F.expr(condition), F.lit(False))
    return _reason(rows, broken, F.lit(f"rule broken: {name}"))


def rows_of_the_table(rows: DataFrame) -> DataFrame:
    """What the next table goes on from; rows that went to quarantine are not among them."""
    return rows.withColumn(
        OUTCOME, F.when(F.col(OUTCOME).isNotNull(), F.lit(DROPPED)).cast("string")
    )


def as_topic_rows(rows: DataFrame, topic: str, key: str, value: str) -> DataFrame:
    """Good rows as records of a topic."""
    return rows.where(F.col(OUTCOME).isNull()).select(
        # By way of text, so that a number is written in digits; bytes stay as they are.
        F.expr(key).cast("string").cast("binary").alias("key"),
        F.expr(value).cast("string").cast("binary").alias("value"),
        F.lit(topic).alias("topic"),
    )


def table_rows(rows: DataFrame) -> DataFrame:
    """Good rows as a table has them."""
    return rows.where(F.col(OUTCOME).isNull()).drop("_key", "_value", OUTCOME)


def quarantined_rows(rows: DataFrame) -> DataFrame:
    """Only what goes to quarantine."""
    refused = F.col(OUTCOME).isNotNull() & (F.col(OUTCOME) != DROPPED)
    return rows.where(refused).select(F.col(OUTCOME).alias("_reason"), *RECORD)


def _decoded(
    rows: DataFrame,
    parsed: SparkColumn,
    columns: Sequence[Column],
    whole: SparkColumn,
    why: SparkColumn,
) -> DataFrame:
    """What was parsed, unless it is not the whole value; then why not."""
    found = rows.withColumn(DECODED, parsed)
    found = _reason(found, F.col("_value").isNull(), F.lit("the value is null"))
    valid = F.expr(f"is_valid_utf8({_TEXT})")
    found = _reason(found, ~valid, F.lit("the value is not UTF-8"))
    nothing = F.col(DECODED).isNull() | F.col(f"{DECODED}.{CORRUPT}").isNotNull()
    return _unpacked(_reason(found, nothing | ~whole, why), columns)


def _unpacked(rows: DataFrame, columns: Sequence[Column]) -> DataFrame:
    fields = [F.col(f"{DECODED}.`{each.name}`").alias(each.name) for each in columns]
    found = rows.select(*fields, *RECORD, OUTCOME)
    for each in columns:
        if each.required:
            missing = F.col(f"`{each.name}`").isNull()
            found = _reason(found, missing, F.lit(f"{each.name} is missing"))
    return found


def _reason(rows: DataFrame, failed: SparkColumn, why: SparkColumn) -> DataFrame:
    """The first reason stays."""
    return rows.withColumn(OUTCOME, F.coalesce(F.col(OUTCOME), F.when(failed, why)))


def _ddl(columns: Sequence[Column]) -> str:
    fields = [f"`{each.name}` {each.type}" for each in columns]
    return ", ".join([*fields, f"{CORRUPT} string"])
