"""A pipeline as an ordinary Spark Declarative Pipelines project.

    spark-pipeline.yaml             topics to tables
    transformations/bronze.py       one file per table: its rows, its sink, its flow
    views/spark-pipeline.yaml       queries over the tables, run behind the first
    steps.py, order.avsc            what the description refers to, copied

`spark-pipelines run --spec spark-pipeline.yaml` runs it as well as we do.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Collection
from pathlib import Path
from pprint import pformat
from typing import Final

import yaml

from tidelog.pipelines.column_flow import columns_of
from tidelog.pipelines.reading import Reading
from tidelog.pipelines.source_options import client_options, stream_options
from tidelog.pipelines.spec import (
    Pipeline,
    PythonStep,
    Table,
    TableFormat,
    TableOutput,
    TopicOutput,
    View,
)
from tidelog.pipelines.sql_text import tables_in
from tidelog.pipelines.state import State
from tidelog.pipelines.transformation import transformation_source

SPEC_FILE: Final = "spark-pipeline.yaml"
VIEWS: Final = "views"
CONFIGURATION: Final = {
    # An expression that fails gives null, which a rule can refuse; an error would stop the flow.
    "spark.sql.ansi.enabled": "false",
    "spark.sql.mapKeyDedupPolicy": "LAST_WIN",
    "spark.sql.session.timeZone": "UTC",
    # What Delta and other readers of Parquet know; Spark's default is a type of its own.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def write_project(pipeline: Pipeline, directory: Path) -> None:
    """Write the project into a directory that is empty or not there."""
    (directory / "transformations").mkdir(parents=True)
    for table in pipeline.tables.values():
        path = directory / "transformations" / f"{table.name}.py"
        path.write_text(table_source(pipeline, table), encoding="utf-8")
    for name in _referenced(pipeline):
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(pipeline.path.parent / name, target)
    _write_spec(pipeline, directory, pipeline.name)
    if pipeline.views:
        write_views(pipeline, pipeline.views.values(), directory / VIEWS)


def table_source(pipeline: Pipeline, table: Table) -> str:
    """The Python file of one table."""
    return transformation_source(pipeline, table.name) + (
        _topic_flows(pipeline, table, table.output)
        if isinstance(table.output, TopicOutput)
        else _table_flow(pipeline, table, table.output)
    )


def _table_flow(pipeline: Pipeline, table: Table, output: TableOutput) -> str:
    state = State(pipeline.storage)
    options = {
        "path": str(state.table(table.name)),
        "quarantine": str(state.quarantine(table.name)),
        "decisions": str(state.decisions(table.name)),
        "format": str(output.format),
        "partition_by": json.dumps(list(output.partition_by)),
    }
    return _sink(table.name, "tidelog-table", options) + _flow(
        pipeline, table.name, table.name, "rows(records)"
    )


def _topic_flows(pipeline: Pipeline, table: Table, output: TopicOutput) -> str:
    state = State(pipeline.storage)
    columns = columns_of(Reading(), pipeline, table.name) or {}
    value = output.value or f"to_json(struct({', '.join(f'`{each}`' for each in columns)}))"
    rows = f"steps.as_topic_rows(rows(records), {output.topic!r}, {output.key!r}, {value!r})"
    refused = f"{table.name}_quarantine"
    options = {
        "path": str(state.table(refused)),
        "decisions": str(state.decisions(refused)),
        "format": str(TableFormat.DELTA),
    }
    return (
        _sink(table.name, "tidelog", client_options(pipeline))
        + _flow(pipeline, table.name, table.name, rows)
        + _sink(refused, "tidelog-table", options)
        + _flow(pipeline, table.name, refused, "steps.quarantined_rows(rows(records))")
    )


def _sink(name: str, form: str, options: dict[str, str]) -> str:
    return f'\n\ndp.create_sink("{name}_sink", "{form}", {pformat(options)})\n'


def _flow(pipeline: Pipeline, table: str, name: str, result: str) -> str:
    options = pformat(stream_options(pipeline, table))
    return f'''

@dp.append_flow(target="{name}_sink", name="{name}")
def {name}_flow() -> DataFrame:
    options = {options}
    records = spark.readStream.format("tidelog").options(**options).load()
    return {result}
'''


def _write_spec(pipeline: Pipeline, directory: Path, name: str) -> None:
    spec = {
        "name": name,
        "storage": State(pipeline.storage).root.as_uri(),
        "configuration": {**CONFIGURATION, **pipeline.spark},
        "libraries": [{"glob": {"include": "transformations/**"}}],
    }
    text = yaml.safe_dump(spec, sort_keys=False)
    (directory / SPEC_FILE).write_text(text, encoding="utf-8")


def write_views(pipeline: Pipeline, views: Collection[View], directory: Path) -> None:
    """Write the project that computes these views."""
    (directory / "transformations").mkdir(parents=True)
    used = {name for view in views for name in tables_in(view.sql)}
    lines = [
        '"""The tables that the views read."""',
        "from pyspark import pipelines as dp",
        "from pyspark.sql import DataFrame, SparkSession",
        "spark = SparkSession.active()",
    ]
    for table in pipeline.stored_tables():
        if table.name in used:
            path = str(State(pipeline.storage).table(table.name))
            form = (
                '"tidelog-table"' if _is_delta(table) else '"parquet").option("mergeSchema", "true"'
            )
            lines += [
                f'\n\n@dp.temporary_view(name="{table.name}")',
                f"def {table.name}_table() -> DataFrame:",
                f"    return spark.read.format({form}).load({path!r})",
            ]
    text = "\n".join(lines) + "\n"
    (directory / "transformations" / "tables.py").write_text(text, encoding="utf-8")
    for view in views:
        sql = f"CREATE MATERIALIZED VIEW {view.name} AS\n{view.sql.strip()};\n"
        (directory / "transformations" / f"{view.name}.sql").write_text(sql, encoding="utf-8")
    _write_spec(pipeline, directory, f"{pipeline.name}_views")


def _is_delta(table: Table) -> bool:
    return isinstance(table.output, TableOutput) and table.output.format is TableFormat.DELTA


def _referenced(pipeline: Pipeline) -> set[str]:
    """Files beside the description that it names."""
    found = set()
    for table in pipeline.tables.values():
        found |= {each.file for each in table.steps if isinstance(each, PythonStep)}
        if table.decode is not None and table.decode.schema_file is not None:
            found.add(table.decode.schema_file)
    return found
