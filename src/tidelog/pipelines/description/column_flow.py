"""Which columns a row has after each step, so that an unknown one is found before Spark starts.

Where a schema is inferred and not pinned yet, columns are unknown and only SQL itself is checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

from tidelog.model.nearest import nearest
from tidelog.pipelines.description.avro_schema import AvroMistake, avro_columns
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import (
    RECORD,
    Column,
    Decode,
    DecodeFormat,
    Pipeline,
    PythonStep,
    Select,
    SparkOutput,
    Step,
    Table,
    TopicOutput,
    Where,
    With,
)
from tidelog.pipelines.description.sql_text import columns_in, is_nested, type_of
from tidelog.pipelines.description.step_files import check_step_file
from tidelog.pipelines.project.pinned import pinned_columns

Columns = dict[str, str | None] | None
"""In their order, with their types as far as they are plain to see; None when nobody knows yet."""

_RECORD_TYPES: Final = dict(
    zip(
        RECORD,
        ("string", "int", "bigint", "int", "timestamp", "binary", "binary"),
        strict=True,
    )
)


def check_columns(reading: Reading, pipeline: Pipeline) -> None:
    """Walk every table from its source to its output."""
    for name in pipeline.tables:
        columns_of(reading, pipeline, name)


def columns_of(reading: Reading, pipeline: Pipeline, name: str) -> Columns:
    """The columns of the table, with all that is wrong on the way to it."""
    table = pipeline.tables[name]
    if table.upstream is not None:
        columns = columns_of(Reading(), pipeline, table.upstream)  # its mistakes are its own
    else:
        assert table.decode is not None
        columns = _decoded(reading, pipeline, table, table.decode)
    for step in table.steps:
        columns = _after(reading, pipeline, columns, step)
    for rule in table.rules:
        _check_condition(reading, columns, rule.condition, rule.line)
    _check_output(reading, table, columns)
    return columns


def _decoded(reading: Reading, pipeline: Pipeline, table: Table, decode: Decode) -> Columns:
    if decode.format is DecodeFormat.AVRO:
        try:
            return _typed(avro_columns(pipeline, decode))
        except AvroMistake as error:
            reading.wrong(decode.line, str(error))
            return None
    if decode.columns is not None:
        return _typed(decode.columns)
    pinned = pinned_columns(pipeline, table.name)
    return None if pinned is None else _typed(pinned)


def _typed(columns: Iterable[Column]) -> dict[str, str | None]:
    return {each.name: each.type for each in columns}


def _after(reading: Reading, pipeline: Pipeline, columns: Columns, step: Step) -> Columns:
    match step:
        case With():
            return _added(columns, _computed(reading, columns, step))
        case Where():
            _check_condition(reading, columns, step.condition, step.line)
            return columns
        case Select():
            return _computed(reading, columns, step)
        case PythonStep():
            check_step_file(reading, pipeline.path.parent, step)
            return _added(columns, _typed(step.returns))


def _added(columns: Columns, more: dict[str, str | None]) -> Columns:
    return None if columns is None else {**columns, **more}


def _computed(reading: Reading, columns: Columns, step: With | Select) -> dict[str, str | None]:
    found = {}
    for name, expression in step.columns.items():
        _check(reading, columns, expression, step.line)
        # What is wrong with the SQL itself was told just now.
        found[name] = Reading().sql(step.line, partial(type_of, expression, columns or {}))
    return found


def _check(reading: Reading, columns: Columns, expression: str, line: int) -> None:
    used = reading.sql(line, partial(columns_in, expression))
    if columns is None:
        return
    lowered = {each.lower() for each in (*columns, *RECORD)}
    for name in sorted(used or ()):
        if name.lower() not in lowered:
            reading.wrong(line, f"there is no column {name} here; {nearest(name, columns)}")


def _check_condition(reading: Reading, columns: Columns, condition: str, line: int) -> None:
    _check(reading, columns, condition, line)
    kind = Reading().sql(line, partial(type_of, condition, {**_RECORD_TYPES, **(columns or {})}))
    if kind is not None and kind != "boolean":
        reading.wrong(
            line,
            f"{condition} is {kind}, and a condition is true or false: compare it, as in x > 0",
        )


def _check_output(reading: Reading, table: Table, columns: Columns) -> None:
    output = table.output
    if isinstance(output, TopicOutput):
        for expression in filter(None, (output.key, output.value)):
            _check(reading, columns, expression, output.line)
        return
    if columns is None or isinstance(output, SparkOutput):
        return
    known = [*columns, *RECORD[:3]]
    for name in output.partition_by:
        if name not in known:
            reading.wrong(output.line, f"there is no column {name} here; {nearest(name, known)}")
        if is_nested(kind := columns.get(name) or ""):
            reading.wrong(output.line, f"{name} is {kind}: no table can be partitioned by it")
    if columns and set(columns) <= set(output.partition_by):
        reading.wrong(output.line, "partition_by leaves no column for the files")
