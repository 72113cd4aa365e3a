"""What a pipeline remembers: starts, checkpoints, refreshes, one run at a time."""

from __future__ import annotations

import ast
import io
import json
import shutil
from pathlib import Path
from typing import Any
from uuid import uuid4

import fastavro
import pytest
import yaml
from tests.pipelines.conftest import Describe, Mistakes

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.avro_schema import avro_columns
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Column, starting_from
from tidelog.pipelines.description.starts import StartMistake, starting_options
from tidelog.pipelines.project.arrow_types import arrow_type
from tidelog.pipelines.project.avro import decoded
from tidelog.pipelines.project.project import SPEC_FILE, write_project
from tidelog.pipelines.project.source_options import stream_options
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.run.running import sole_run
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.summary import behind, passed
from tidelog.pipelines.tables.decisions import Counts
from tidelog.pipelines.tables.durable import create_file, replace_file
from tidelog.spark.source.offsets import Position

TWO = """
name: shop
client: {security.protocol: PLAINTEXT}
tables:
  a: {topics: [o, p], decode: text, steps: [{where: value <> ''}]}
  b: {from: a, to_topic: out}
views: {v: {sql: SELECT count(*) AS n FROM a}}
"""


@pytest.mark.parametrize(
    ("start", "options"),
    [
        ("earliest", {"startingOffsets": "earliest"}),
        ("-100", {"startingOffsets": "-100"}),
        ("-10 minutes", {"startingOffsets": "-10 minutes"}),
        ('{"o": {"0": 42}}', {"startingOffsets": '{"o": {"0": 42}}'}),
        ("{o: {0: 42, 1: -2}}", {"startingOffsets": '{"o": {"0": 42, "1": -2}}'}),
    ],
)
def test_a_start_is_an_option_of_a_read(start: str, options: dict[str, str]) -> None:
    assert starting_options(start) == options


@pytest.mark.parametrize(
    "text", ["2026-01-31T08:00Z", "2026-01-31T08:00", "2026-01-31 09:00+01:00"]
)
def test_a_time_is_utc_unless_it_says_otherwise(text: str) -> None:
    assert starting_options(text)["startingTimestamp"] == "1769846400000"


def test_what_is_no_start_is_refused_with_what_there_is() -> None:
    for wrong in ("tomorrow", "{o: {0: 42}", "{o: 42}"):
        with pytest.raises(StartMistake, match="-10 minutes"):
            starting_options(wrong)


def test_a_pinned_start_holds(describe: Describe) -> None:
    pipeline = describe(TWO)
    assert stream_options(pipeline, "b")["startingOffsets"] == "earliest"
    replace_file(State(pipeline.storage).start_file("b"), '{"o": {"0": 5}}')
    options = stream_options(pipeline, "b")
    assert options["startingOffsets"] == '{"o": {"0": 5}}'
    assert options["subscribe"] == "o,p"
    assert options["kafka.security.protocol"] == "PLAINTEXT"


def test_a_backfill_starts_the_source_of_a_table_elsewhere(describe: Describe) -> None:
    moved = starting_from(describe(TWO), ["b"], "2026-01-31")
    assert moved.source("a").start == moved.source("b").start == "2026-01-31"


def test_a_checkpoint_tells_how_far_each_batch_goes(tmp_path: Path) -> None:
    for generation, offset in (("9", 1), ("10", 7)):
        for kind in ("offsets", "commits"):
            (tmp_path / "flow" / generation / kind).mkdir(parents=True)
        text = "v1\n{}\n" + json.dumps({"o": {"0": offset}, "@epochs": {"o": {"0": 2}}})
        (tmp_path / "flow" / generation / "offsets" / "0").write_text(text)
    checkpoint = Checkpoint(tmp_path, "flow")
    assert checkpoint.batches() == [0]
    assert checkpoint.position() == {}
    (tmp_path / "flow" / "10" / "commits" / "0").write_text("v1")
    assert checkpoint.position() == {TopicPartition("o", 0): Position(7, 2)}
    assert Checkpoint(tmp_path, "other").batches() == []


def test_a_partition_that_was_never_read_lags_from_its_first_record() -> None:
    first, second = TopicPartition("o", 0), TopicPartition("o", 1)
    earliest = {first: Position(0), second: Position(10)}
    latest = {first: Position(8), second: Position(12)}
    assert behind({first: Position(5)}, earliest, latest) == 3 + 2


def test_records_that_aged_out_before_they_were_read_do_not_wait() -> None:
    where = TopicPartition("o", 0)
    assert behind({where: Position(5)}, {where: Position(20)}, {where: Position(30)}) == 10


def test_a_topic_that_came_late_waits_and_was_not_read() -> None:
    old, late = TopicPartition("o", 0), TopicPartition("p", 0)
    earliest = {old: Position(0), late: Position(10)}
    latest = {old: Position(8), late: Position(12)}
    stood_at, stands_at = {old: Position(5)}, {old: Position(8)}
    assert passed(stood_at, stands_at, earliest) == 3
    assert behind(stands_at, earliest, latest) == 2
    assert passed(stands_at, {**stands_at, late: Position(12)}, earliest) == 2


def test_a_refresh_that_was_cut_short_is_finished(describe: Describe) -> None:
    pipeline = describe(TWO)
    state = State(pipeline.storage)
    forgotten = [
        state.table("a"), state.quarantine("a"), state.decisions("a"), state.checkpoints("a"),
    ]  # fmt: skip
    for directory in forgotten:
        directory.mkdir(parents=True)
        (directory / "file").write_text("old")
    request_refresh(pipeline, ["a"])
    shutil.rmtree(state.checkpoints("a"))  # it died here
    finish_refreshes(pipeline)
    assert not any(each.exists() for each in forgotten)
    assert not state.refresh_marker("a").exists()


def test_only_tables_that_exist_can_be_refreshed(describe: Describe) -> None:
    pipeline = describe(TWO)
    with pytest.raises(PipelineTrouble, match="there is no table c"):
        request_refresh(pipeline, ["c"])
    with pytest.raises(PipelineTrouble, match="cannot be taken back"):
        request_refresh(pipeline, ["b"])


def test_settings_that_spark_starts_with_are_not_set_again(
    describe: Describe, tmp_path: Path
) -> None:
    settings = {
        "spark.jars": "a.jar",
        "spark.sql.extensions": "a.Extensions",
        "spark.sql.catalog.lake": "a.Catalog",
        "spark.sql.shuffle.partitions": "4",
        "spark.sql.session.timeZone": "CET",
    }
    write_project(describe(f"{TWO}spark: {json.dumps(settings)}\n"), tmp_path / "project")
    configured = yaml.safe_load((tmp_path / "project" / SPEC_FILE).read_text())["configuration"]
    assert configured["spark.sql.shuffle.partitions"] == "4"
    assert configured["spark.sql.session.timeZone"] == "CET"
    assert configured["spark.sql.ansi.enabled"] == "false"
    assert not {"spark.jars", "spark.sql.extensions", "spark.sql.catalog.lake"} & set(configured)


def test_a_pipeline_runs_once_at_a_time(describe: Describe) -> None:
    pipeline = describe(TWO)
    with (
        sole_run(pipeline),
        pytest.raises(PipelineTrouble, match="another run of shop is at work"),
        sole_run(pipeline),
    ):
        raise AssertionError("two runs")


def test_a_file_is_created_once_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "below" / "file"
    assert create_file(path, "first")
    assert not create_file(path, "second")
    assert path.read_text() == "first"
    replace_file(path, "third")
    assert path.read_text() == "third"
    assert list(path.parent.iterdir()) == [path]


def test_a_project_is_ordinary_python_yaml_and_sql(describe: Describe, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_project(describe(TWO), project)
    found = {str(each.relative_to(project)) for each in project.rglob("*.*")}
    assert {
        SPEC_FILE, "transformations/a.py", "transformations/b.py", f"views/{SPEC_FILE}",
        "views/transformations/tables.py", "views/transformations/v.sql",
    } <= found  # fmt: skip
    for path in project.rglob("*.py"):
        compile(path.read_text(), path, "exec")
    text = (project / "transformations" / "b.py").read_text()
    assert "steps.where(found, \"value <> ''\")" in text
    assert "to_json(struct(`value`))" in text


def test_views_see_the_new_columns_of_a_parquet_table(describe: Describe, tmp_path: Path) -> None:
    project = tmp_path / "project"
    write_project(describe(TWO.replace("decode: text", "decode: text, format: parquet")), project)
    text = (project / "views" / "transformations" / "tables.py").read_text()
    assert "'mergeSchema': 'true'" in text and 'spark.read.format("parquet")' in text


@pytest.mark.parametrize("name", ["class", "rows", "steps", "spark", "dp", "avro", "options"])
def test_a_table_may_have_any_name_without_breaking_its_file(
    describe: Describe, tmp_path: Path, name: str
) -> None:
    pipeline = describe(f"""
        name: shop
        tables: {{{name}: {{topics: o, decode: text}}, {name}_out: {{from: {name}, to_topic: p}}}}
        views: {{v: {{sql: SELECT count(*) AS n FROM {name}}}}}
    """)
    project = tmp_path / "project"
    write_project(pipeline, project)
    for path in project.rglob("*.py"):
        tree = ast.parse(path.read_text())
        bound = [
            alias.asname or alias.name
            for node in tree.body
            if isinstance(node, ast.Import | ast.ImportFrom)
            for alias in node.names
        ]
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        assert len({*bound, *defined, "spark"}) == len(bound) + len(defined) + 1
    text = (project / "transformations" / f"{name}.py").read_text()
    assert f'@dp.append_flow(target="{name}_sink", name="{name}")\ndef {name}_flow()' in text
    assert (
        f'@dp.temporary_view(name="{name}")'
        in (project / "views" / "transformations" / "tables.py").read_text()
    )


def test_counts_add_up() -> None:
    one = Counts(rows=1, quarantined=2, dropped=3)
    assert (one + one - one) == one
    assert one.all == 6


AVRO = """
name: shop
tables: {a: {topics: o, decode: {format: avro, schema_file: order.avsc}, rules: {r: id > 0}}}
"""


def test_avro_schemas_become_columns(describe: Describe, tmp_path: Path) -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9}},
        {"name": "at", "type": ["null", {"type": "long", "logicalType": "timestamp-micros"}]},
        {"name": "kind", "type": {"type": "enum", "name": "K", "symbols": ["A"]}},
        {"name": "lines", "type": {"type": "array", "items": {
            "type": "record", "name": "L", "fields": [{"name": "n", "type": "int"}]}}},
        {"name": "more", "type": {"type": "map", "values": "string"}},
    ]  # fmt: skip
    schema = {"type": "record", "name": "Order", "fields": fields}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    pipeline = describe(AVRO)
    decode = pipeline.tables["a"].decode
    assert decode is not None
    found = avro_columns(pipeline, decode)
    assert found == (
        Column("id", "bigint"), Column("price", "decimal(9,0)"), Column("at", "timestamp"),
        Column("kind", "string"), Column("lines", "array<struct<n:int>>"),
        Column("more", "map<string,string>"),
    )  # fmt: skip
    for column in found:
        assert arrow_type(column.type) is not None


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([{"name": "id", "type": ["int", "string"]}], "id is a union of several types"),
        (
            [{"name": "id", "type": {"type": "int", "logicalType": "time-millis"}}],
            "id has the logical type time-millis of int, which no column can be",
        ),
        (
            [{"name": "id", "type": {"type": "long", "logicalType": "date"}}],
            "id has the logical type date of long, which no column can be",
        ),
        (
            [{"name": "id", "type": {"type": "bytes", "logicalType": "decimal"}}],
            "id has no precision in its Avro schema",
        ),
        ([{"name": "id"}], "id has no type in its Avro schema"),
        ([{"name": "id", "type": {"type": "array"}}], "id has no items in its Avro schema"),
        ([], "order.avsc is a record without fields"),
        (None, "order.avsc has no fields in its Avro schema"),
    ],
)
def test_an_avro_schema_that_no_columns_can_be_is_a_mistake(
    mistakes: Mistakes, tmp_path: Path, fields: list[object] | None, expected: str
) -> None:
    schema = {"type": "record", "name": "Order", **({} if fields is None else {"fields": fields})}
    (tmp_path / "order.avsc").write_text(json.dumps(schema))
    (found,) = mistakes(AVRO)
    assert found.startswith(f"2: {expected}")


def test_the_number_of_a_schema_in_front_of_avro_is_said_by_a_flag(
    describe: Describe, mistakes: Mistakes, tmp_path: Path
) -> None:
    field = {"name": "id", "type": "long"}
    (tmp_path / "order.avsc").write_text(
        json.dumps({"type": "record", "name": "Order", "fields": [field]})
    )
    for text, expected in (("true", True), ("false", False)):
        framed = AVRO.replace("order.avsc", f"order.avsc, registry_framing: {text}")
        decode = describe(framed).tables["a"].decode
        assert decode is not None and decode.registry_framing is expected
    (found,) = mistakes(AVRO.replace("order.avsc", "order.avsc, registry_framing: sometimes"))
    assert found == "2: registry_framing is true or false"


def test_a_uuid_of_avro_is_a_text_wherever_it_stands() -> None:
    text = {"type": "string", "logicalType": "uuid"}
    schema: dict[str, Any] = {"type": "record", "name": "Order", "fields": [
        {"name": "id", "type": text},
        {"name": "more", "type": {"type": "array", "items": {"type": "map", "values": text}}},
    ]}  # fmt: skip
    one, two = uuid4(), uuid4()
    datum = io.BytesIO()
    fastavro.schemaless_writer(datum, schema, {"id": one, "more": [{"x": two}]})
    found = decoded(schema, datum.getvalue(), registry_framing=False)
    assert found == {"id": str(one), "more": [{"x": str(two)}]}
