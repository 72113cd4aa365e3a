"""A pipeline's YAML, read and checked for all that needs neither Spark nor a cluster.

Invariant  A description that passes names only keys, tables, columns, types and files that exist.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Final

from tidelog.client.blocking import parse_bootstrap
from tidelog.model.errors import ConfigError
from tidelog.model.nearest import nearest
from tidelog.pipelines.description.column_flow import check_columns, columns_of
from tidelog.pipelines.description.function_check import check_functions
from tidelog.pipelines.description.mistakes import PipelineTrouble, SpecError
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import (
    DEFAULT_BOOTSTRAP,
    POSITION,
    Pipeline,
    Table,
    TopicOutput,
    View,
)
from tidelog.pipelines.description.sql_text import tables_in, unknown_column
from tidelog.pipelines.description.table_parsing import NAME, read_table
from tidelog.pipelines.description.yaml_nodes import Given, read_yaml

FILE_NAME: Final = "pipeline.yaml"
_KEYS: Final = (
    "name", "bootstrap", "client", "storage", "max_offsets_per_batch", "spark", "tables", "views",
)  # fmt: skip


def load_pipeline(path: Path, bootstrap: str = DEFAULT_BOOTSTRAP) -> Pipeline:
    """The pipeline that the file describes, or every mistake in it.

    `bootstrap` is where the cluster is unless the file says it.
    """
    if path.is_dir():
        path = path / FILE_NAME
    if not path.exists():
        raise PipelineTrouble(
            f"there is no {path}: `tidelog pipelines init NAME` writes an example to start from"
        )
    reading = Reading()
    pipeline = _pipeline(reading, read_yaml(path), path, bootstrap)
    _check_lineage(reading, pipeline)
    _check_quarantines(reading, pipeline)
    if not reading.mistakes:
        _check_topic_outputs(reading, pipeline)
        check_columns(reading, pipeline)
        check_functions(reading, pipeline)
        _check_views(reading, pipeline)
    if reading.mistakes:
        raise SpecError(str(path), reading.mistakes)
    return pipeline


def _pipeline(reading: Reading, given: Given, path: Path, otherwise: str) -> Pipeline:
    found = reading.keyed(given, "a pipeline", _KEYS)
    for key in ("name", "tables"):
        if key not in found:
            reading.wrong(given.line, f"a pipeline needs {key}")
    bootstrap = reading.text(found.get("bootstrap"), "bootstrap", otherwise)
    if "bootstrap" in found:
        try:
            parse_bootstrap(bootstrap)
        except ConfigError as error:
            reading.wrong(found["bootstrap"].line, str(error))
    name = reading.text(found.get("name"), "name", "pipeline")
    if not NAME.fullmatch(name):
        reading.wrong(found["name"].line, f"{name} is no name: lower-case letters, digits and _")
    tables = reading.mapping(found.get("tables"), "tables")
    views = reading.mapping(found.get("views"), "views")
    return Pipeline(
        name=name,
        path=path.absolute(),
        bootstrap=bootstrap,
        client=reading.settings(found.get("client"), "client"),
        storage=(path.absolute().parent / reading.text(found.get("storage"), "storage", "tables")),
        max_offsets_per_batch=reading.count(
            found.get("max_offsets_per_batch"), "max_offsets_per_batch"
        ),
        spark=reading.settings(found.get("spark"), "spark"),
        tables={table: read_table(reading, table, each) for table, each in tables.items()},
        views={view: _view(reading, view, each) for view, each in views.items()},
    )


def _view(reading: Reading, name: str, given: Given) -> View:
    if not NAME.fullmatch(name):
        reading.wrong(given.line, f"{name} is no name for a view: lower-case letters, digits and _")
    found = reading.keyed(given, f"view {name}", ("sql",))
    if "sql" not in found:
        reading.wrong(given.line, f"view {name} needs sql")
    return View(name, reading.text(found.get("sql"), "sql"), given.line)


def _check_lineage(reading: Reading, pipeline: Pipeline) -> None:
    for table in pipeline.tables.values():
        seen: list[str] = []
        at: Table | None = table
        while at is not None:
            if at.name in seen:
                reading.wrong(table.line, f"{' from '.join([*seen, at.name])} goes in a circle")
                return
            seen.append(at.name)
            if at.upstream is not None and at.upstream not in pipeline.tables:
                known = set(pipeline.tables) - {at.name}
                reading.wrong(
                    at.line, f"there is no table {at.upstream}; {nearest(at.upstream, known)}"
                )
            at = None if at.upstream is None else pipeline.tables.get(at.upstream)


def _check_topic_outputs(reading: Reading, pipeline: Pipeline) -> None:
    for table in pipeline.tables.values():
        if not isinstance(table.output, TopicOutput):
            continue
        topic, source = table.output.topic, pipeline.source(table.name)
        matched = source.pattern is not None and re.fullmatch(source.pattern, topic)
        if topic in source.topics or matched:
            reading.wrong(
                table.output.line, f"{table.name} would read what it writes to {topic}, for ever"
            )


def _check_quarantines(reading: Reading, pipeline: Pipeline) -> None:
    for table in pipeline.tables:
        taken = f"{table}_quarantine"
        for named in (pipeline.tables.get(taken), pipeline.views.get(taken)):
            if named is not None:
                reading.wrong(named.line, f"{taken} is the quarantine of table {table} already")


def _check_views(reading: Reading, pipeline: Pipeline) -> None:
    stored = {each.name for each in pipeline.stored_tables()}
    for view in pipeline.views.values():
        if view.name in pipeline.tables:
            reading.wrong(view.line, f"{view.name} is a table already")
        for name in sorted(reading.sql(view.line, partial(tables_in, view.sql)) or ()):
            if name not in stored:
                reading.wrong(view.line, f"there is no table {name}; {nearest(name, stored)}")
    if not reading.mistakes:
        _check_view_columns(reading, pipeline)


def _check_view_columns(reading: Reading, pipeline: Pipeline) -> None:
    for view in pipeline.views.values():
        columns = {
            name: columns_of(reading, pipeline, name)
            for name in reading.sql(view.line, partial(tables_in, view.sql)) or ()
        }
        known = {name: (*each, *POSITION) for name, each in columns.items() if each is not None}
        if len(known) == len(columns):  # else nobody knows yet what was inferred
            mistake = reading.sql(view.line, partial(unknown_column, view.sql, known))
            if mistake is not None:
                reading.wrong(view.line, mistake)
