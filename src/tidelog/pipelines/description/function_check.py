"""Functions in a description's SQL: that they exist, and that no record makes them fail."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidelog.pipelines.description.failing_sql import failing_parts
from tidelog.pipelines.description.mistakes import Mistake
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spark_functions import (
    known_functions,
    knows_all_functions,
    unknown_function,
)
from tidelog.pipelines.description.spec import Pipeline, PythonStep, Table, TopicOutput, Where
from tidelog.pipelines.description.sql_text import by_name


def check_functions(reading: Reading, pipeline: Pipeline) -> None:
    """Look at every expression and every view. A view sees whole tables and may fail as a whole."""
    for table in pipeline.tables.values():
        for line, text in _expressions(table):
            if (parsed := by_name(text)) is not None:
                for mistake in failing_parts(parsed):
                    reading.wrong(line, mistake)
    if _all_are_known(pipeline):
        for line, name in _unknown(pipeline):
            reading.wrong(line, unknown_function(name))


def doubts(pipeline: Pipeline) -> list[Mistake]:
    """Functions that nobody knows here, although this Spark may have them."""
    if _all_are_known(pipeline):
        return []
    return [
        Mistake(
            line, f"{unknown_function(name)} (unless an extension or another version brings it)"
        )
        for line, name in sorted(set(_unknown(pipeline)))
    ]


def _all_are_known(pipeline: Pipeline) -> bool:
    """Whether the Spark of this description can have no function that nobody knows here."""
    return knows_all_functions() and not any(
        key.startswith(("spark.sql.extensions", "spark.sql.catalog")) for key in pipeline.spark
    )


def _expressions(table: Table) -> Iterator[tuple[int, str]]:
    for step in table.steps:
        if isinstance(step, Where):
            yield step.line, step.condition
        elif not isinstance(step, PythonStep):
            yield from ((step.line, text) for text in step.columns.values())
    yield from ((rule.line, rule.condition) for rule in table.rules)
    if isinstance(table.output, TopicOutput):
        texts = (table.output.key, table.output.value)
        yield from ((table.output.line, text) for text in texts if text is not None)


def _unknown(pipeline: Pipeline) -> Iterator[tuple[int, str]]:
    """Functions of every expression and every view that are not Spark's own, with their lines."""
    known = known_functions()
    found = [each for table in pipeline.tables.values() for each in _expressions(table)]
    found += [(view.line, view.sql) for view in pipeline.views.values()]
    for line, text in found:
        parsed = by_name(text)
        for call in () if parsed is None else parsed.find_all(exp.Anonymous):
            name = call.name.lower()
            elsewhere = isinstance(call.parent, exp.Dot | exp.Table)  # of a catalog, or a table
            if name not in known and not elsewhere:
                yield line, name
