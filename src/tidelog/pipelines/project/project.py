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
from collections.abc import Collection, Mapping
from pathlib import Path
from pprint import pformat
from typing import Final

import yaml

from tidelog.pipelines.description.column_flow import columns_of
from tidelog.pipelines.description.reading import Reading
from tidelog.pipelines.description.spec import (
    Pipeline,
    PythonStep,
    SparkOutput,
    Table,
    TableFormat,
    TableOutput,
    TopicOutput,
    View,
)
from tidelog.pipelines.description.sql_text import tables_in
from tidelog.pipelines.project.source_options import client_options, stream_options
from tidelog.pipelines.project.transformation import transformation_source

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
_AT_START: Final = ("spark.sql.extensions", "spark.sql.catalog", "spark.sql.warehouse")


def write_project(pipeline: Pipeline, directory: Path) -> None:
    """Write the project into a directory that is empty or not there."""
    (directory / "transformations").mkdir(parents=True)
    for table in pipeline.filled:
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
    head = transformation_source(pipeline, table.name)
    match table.output:
        case TableOutput() as output:
            return head + _table_flow(pipeline, table, output)
        case SparkOutput() as output:
            options = spark_options(pipeline, table.name, output)
            sink = _sink(table.name, output.format, options)
            return head + _two_flows(pipeline, table, sink, "steps.table_rows(rows(records))")
        case TopicOutput() as output:
            options = {**client_options(pipeline), "delivery": str(output.delivery)}
            sink = _sink(table.name, "tidelog", options)
            return head + _two_flows(pipeline, table, sink, _topic_rows(pipeline, table, output))


def _table_flow(pipeline: Pipeline, table: Table, output: TableOutput) -> str:
    state = pipeline.state
    options = {
        "path": str(state.table(table.name)),
        "quarantine": str(state.quarantine(table.name)),
        **_decisions(pipeline, table.name),
        "format": str(output.format),
        "partition_by": json.dumps(list(output.partition_by)),
    }
    return _sink(table.name, "tidelog-table", options) + _flow(
        pipeline, table.name, table.name, "rows(records)"
    )


def _decisions(pipeline: Pipeline, name: str) -> dict[str, str]:
    found = {"decisions": str(pipeline.state.decisions(name))}
    return {**found, "backfill": "true"} if pipeline.backfill else found


def spark_options(pipeline: Pipeline, name: str, output: SparkOutput) -> dict[str, str]:
    """How Spark finds a table of its own; among ours unless it is told a path."""
    return {"path": str(pipeline.state.table(name)), **output.options}


def _topic_rows(pipeline: Pipeline, table: Table, output: TopicOutput) -> str:
    columns = columns_of(Reading(), pipeline, table.name) or {}
    value = output.value or f"to_json(struct({', '.join(f'`{each}`' for each in columns)}))"
    return f"steps.as_topic_rows(rows(records), {output.topic!r}, {output.key!r}, {value!r})"


def _two_flows(pipeline: Pipeline, table: Table, sink: str, rows: str) -> str:
    """One to a sink that is not ours, and one to the quarantine beside it."""
    state = pipeline.state
    refused = f"{table.name}_quarantine"
    options = {
        "path": str(state.table(refused)),
        **_decisions(pipeline, refused),
        "format": str(TableFormat.DELTA),
    }
    return (
        sink
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
        "storage": pipeline.state.flows.as_uri(),
        "configuration": {**CONFIGURATION, **_changeable(pipeline.spark)},
        "libraries": [{"glob": {"include": "transformations/**"}}],
    }
    text = yaml.safe_dump(spec, sort_keys=False)
    (directory / SPEC_FILE).write_text(text, encoding="utf-8")


def _changeable(settings: Mapping[str, str]) -> dict[str, str]:
    """Those that a session which is up can still take; Spark starts with the others."""
    return {
        name: text
        for name, text in settings.items()
        if name.startswith("spark.sql.") and not name.startswith(_AT_START)
    }


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
            form, options = read_format(pipeline, table)
            lines += [
                f'\n\n@dp.temporary_view(name="{table.name}")',
                f"def {table.name}_table() -> DataFrame:",
                f"    options = {pformat(options)}",
                f'    return spark.read.format("{form}").options(**options).load()',
            ]
    text = "\n".join(lines) + "\n"
    (directory / "transformations" / "tables.py").write_text(text, encoding="utf-8")
    for view in views:
        sql = f"CREATE MATERIALIZED VIEW {view.name} AS\n{view.sql.strip()};\n"
        (directory / "transformations" / f"{view.name}.sql").write_text(sql, encoding="utf-8")
    _write_spec(pipeline, directory, f"{pipeline.name}_views")


def read_format(pipeline: Pipeline, table: Table) -> tuple[str, dict[str, str]]:
    """The format and the options with which Spark reads a table."""
    if isinstance(table.output, SparkOutput):
        return table.output.format, spark_options(pipeline, table.name, table.output)
    assert isinstance(table.output, TableOutput)
    path = {"path": str(pipeline.state.table(table.name))}
    if table.output.format is TableFormat.DELTA:
        return "tidelog-table", path
    return "parquet", {**path, "mergeSchema": "true"}


def _referenced(pipeline: Pipeline) -> set[str]:
    """Files beside the description that it names."""
    found = set()
    for table in pipeline.tables.values():
        found |= {each.file for each in table.steps if isinstance(each, PythonStep)}
        if table.decode is not None and table.decode.schema_file is not None:
            found.add(table.decode.schema_file)
    return found
