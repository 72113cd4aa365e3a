"""The Python source of what a table does to its records: the function `rows` of its file.

Invariant  What is audited is what runs: the flow and the audit compile the same source.
"""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.pipelines.description.avro_schema import avro_columns
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import (
    Column,
    Decode,
    DecodeFormat,
    Pipeline,
    PythonStep,
    Select,
    Step,
    Where,
    With,
)
from tidelog.pipelines.project.pinned import pinned_columns

_HEAD = '''"""Table {name} of pipeline {pipeline}, written by `tidelog pipelines`."""

from pathlib import Path

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

from tidelog.pipelines.project import avro, row_functions, steps
from tidelog.pipelines.description.spec import Column

PROJECT = Path(__file__).parents[1]
spark = SparkSession.active()


def rows(records: DataFrame) -> DataFrame:
    """What becomes of each record; the reason is in `_outcome` if it is not a row of the table."""
'''


def transformation_source(pipeline: Pipeline, name: str) -> str:
    """The head of a table's file."""
    body = "".join(f"    found = {line}\n" for line in _calls(pipeline, name))
    return f"{_HEAD.format(name=name, pipeline=pipeline.name)}{body}    return found\n"


def decoded_columns(pipeline: Pipeline, table: str, decode: Decode) -> tuple[Column, ...]:
    """The columns that decoding gives, where the description leaves them to somebody else too."""
    if decode.format is DecodeFormat.AVRO:
        return avro_columns(pipeline, decode)
    if decode.columns is not None:
        return decode.columns
    pinned = pinned_columns(pipeline, table)
    if pinned is None:
        raise PipelineTrouble(f"the schema of {table} is not inferred yet: run the pipeline")
    return pinned


def _calls(pipeline: Pipeline, name: str) -> Iterator[str]:
    yield "steps.records(records)"
    for table in pipeline.lineage(name):
        if table.decode is None:
            yield "steps.rows_of_the_table(found)"
        else:
            yield _decode(pipeline, table.name, table.decode)
        for step in table.steps:
            yield _step(step)
        for rule in table.rules:
            yield f"steps.rule(found, {rule.name!r}, {rule.condition!r})"


def _decode(pipeline: Pipeline, table: str, decode: Decode) -> str:
    columns = _listed(decoded_columns(pipeline, table, decode))
    match decode.format:
        case DecodeFormat.JSON:
            return f"steps.decode_json(found, {columns})"
        case DecodeFormat.CSV:
            return f"steps.decode_csv(found, {columns}, {decode.delimiter!r})"
        case DecodeFormat.AVRO:
            path = f"PROJECT / {decode.schema_file!r}"
            return f"avro.decode_avro(found, {path}, {columns}, {decode.registry_framing})"
        case DecodeFormat.TEXT:
            return "steps.decode_text(found)"
        case DecodeFormat.RAW:
            return "steps.decode_raw(found)"


def _step(step: Step) -> str:
    match step:
        case With():
            return f"steps.with_columns(found, {dict(step.columns)!r})"
        case Where():
            return f"steps.where(found, {step.condition!r})"
        case Select():
            return f"steps.select(found, {dict(step.columns)!r})"
        case PythonStep():
            where = f"PROJECT / {step.file!r}, {step.function!r}"
            return f"row_functions.python_step(found, {where}, {_listed(step.returns)})"


def _listed(columns: tuple[Column, ...]) -> str:
    return "[" + ", ".join(map(repr, columns)) + "]"
