"""Functions in a description's SQL: that they exist, and that no record makes them fail."""

from __future__ import annotations

from collections.abc import Iterator

from sqlglot import exp

from tidelog.pipelines.failing_sql import failing_parts
from tidelog.pipelines.mistakes import nearest
from tidelog.pipelines.reading import Reading
from tidelog.pipelines.spark_functions import FUNCTIONS, knows_all_functions
from tidelog.pipelines.spec import Pipeline, PythonStep, Table, TopicOutput, Where
from tidelog.pipelines.sql_text import by_name


def check_functions(reading: Reading, pipeline: Pipeline) -> None:
    """Look at every expression and every view. A view sees whole tables and may fail as a whole."""
    known = knows_all_functions() and not _brings_functions(pipeline)
    for table in pipeline.tables.values():
        for line, text in _expressions(table):
            if (parsed := by_name(text)) is not None:
                for mistake in failing_parts(parsed):
                    reading.wrong(line, mistake)
                _check_names(reading, line, parsed if known else None)
    for view in pipeline.views.values():
        _check_names(reading, view.line, by_name(view.sql) if known else None)


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


def _check_names(reading: Reading, line: int, parsed: exp.Expr | None) -> None:
    for call in () if parsed is None else parsed.find_all(exp.Anonymous):
        name = call.name.lower()
        elsewhere = isinstance(call.parent, exp.Dot | exp.Table)  # of a catalog, or a table itself
        if name not in FUNCTIONS and not elsewhere:
            hint = nearest(name, FUNCTIONS)
            more = f"; {hint}" if hint.startswith("did") else ""
            reading.wrong(line, f"Spark has no function {name}{more}")


def _brings_functions(pipeline: Pipeline) -> bool:
    """Whether the Spark of this description may have functions that nobody knows here."""
    return any(
        key.startswith(("spark.sql.extensions", "spark.sql.catalog")) for key in pipeline.spark
    )
