"""Python functions of a row as Spark columns.

Invariant  Whatever a function raises becomes the reason of the row it was given, and of no other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.functions import arrow_udf
from pyspark.sql.pandas.types import from_arrow_type

from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import COMPUTED, OUTCOME, Column
from tidelog.pipelines.project.arrow_types import arrow_type
from tidelog.pipelines.project.steps import DROPPED

RowFunction = Callable[[dict[str, Any]], dict[str, Any] | None]


def python_step(rows: DataFrame, path: Path, name: str, returns: Sequence[Column]) -> DataFrame:
    """The columns in `returns`, set by a function in a file."""
    computed = row_udf(load_function(path, name), returns)(F.struct("*"))
    found = rows.withColumn(COMPUTED, computed)
    outcome = F.coalesce(F.col(OUTCOME), F.col(f"{COMPUTED}.{OUTCOME}"))
    columns = {each.name: F.col(f"{COMPUTED}.`{each.name}`") for each in returns}
    return found.withColumns({**columns, OUTCOME: outcome}).drop(COMPUTED)


def load_function(path: Path, name: str) -> RowFunction:
    """The function, from a module that stays unknown, so that it travels to executors by value."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise PipelineTrouble(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PipelineTrouble(f"{path.name} fails: {type(error).__name__}: {error}") from error
    found: RowFunction = getattr(module, name)
    return found


def row_udf(
    function: RowFunction, returns: Sequence[Column]
) -> Callable[[SparkColumn], SparkColumn]:
    """A function over the struct of a row; gives the struct of `returns` and an outcome."""
    fields = ", ".join(f"`{each.name}`: {each.type}" for each in returns)

    def compute(rows: pa.Array) -> pa.Array:
        return computed_rows(function, returns, rows, target)

    target = arrow_type(f"struct<{fields}, {OUTCOME}: string>")
    make: Any = arrow_udf  # its overloads know functions by their annotations alone
    udf: Callable[[SparkColumn], SparkColumn] = make(compute, returnType=from_arrow_type(target))
    return udf


def computed_rows(
    function: RowFunction, returns: Sequence[Column], rows: pa.Array, target: pa.DataType
) -> pa.Array:
    """What the function makes of each row, as an array of `target`."""
    results = []
    for row in rows:
        result = _call(function, returns, row)
        try:
            pa.array([result], target)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            result = {OUTCOME: f"what {function.__name__} returns does not fit: {error}"}
        results.append(result)
    return pa.array(results, target)


def _call(
    function: RowFunction, returns: Sequence[Column], given: pa.StructScalar
) -> dict[str, Any]:
    if given[OUTCOME].is_valid:
        return {}
    try:
        row = given.as_py()
    except Exception as error:
        return {OUTCOME: f"the row has no values in Python: {type(error).__name__}: {error}"}
    del row[OUTCOME]
    try:
        found = function(row)
    except Exception as error:
        return {OUTCOME: f"{function.__name__} failed: {type(error).__name__}: {error}"}
    if found is None:
        return {OUTCOME: DROPPED}
    if not isinstance(found, dict):
        return {OUTCOME: f"{function.__name__} returned {type(found).__name__}, not a dict"}
    values = {each.name: found.get(each.name) for each in returns}
    for each in returns:
        if each.required and values[each.name] is None:
            return {OUTCOME: f"{each.name} is missing"}
    return values
