"""Pipelines over many runs, in one Spark: formats, new columns, refreshes, compaction."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import fastavro
import pyarrow.dataset as ds
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.pipelines.dying import Killed
from tests.spark.conftest import MakeTopic, Write

from tidelog.model.errors import TidelogError
from tidelog.pipelines.audit.comparing import audit_table
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.parsing import load_pipeline
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.backfill import pending_backfill
from tidelog.pipelines.run.running import ProjectRunner, prepare, run_once
from tidelog.pipelines.run.spark_process import SparkProcess, spark_process
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.summary import TableSummary

AVRO = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}
FIRST = """
name: first
tables:
  objects: {topics: objects, decode: json}
  lines:
    topics: lines
    decode: {format: csv, schema: {id: bigint, name: string}, delimiter: ;}
  datums: {topics: datums, decode: {format: avro, schema_file: order.avsc}}
  words: {topics: words, decode: text, compact_files: 1}
  bytes: {topics: words, format: parquet}
"""
SECOND = "name: second\ntables: {own: {topics: objects, format: parquet, decode: {format: json, "
LATE = "name: late\ntables: {late: {topics: past, start: latest, decode: text}}"
MISSED = "Python worker failed to connect back"
"""Spark gives a process that plans a stream ten seconds, which a busy machine may not have."""

Row = dict[str, Any]


@pytest.fixture(scope="module")
def runner(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkProcess]:
    """The process that holds Spark, for all pipelines of this file."""
    place = tmp_path_factory.mktemp("runner")
    settings = {"spark.sql.warehouse.dir": str(place / "warehouse")}
    with (
        (place / "lock").open("w") as lock,
        spark_process("local[2]", settings, place / "log", lock.fileno(), print) as process,
    ):
        yield process


Run = Callable[..., list[TableSummary]]


@pytest.fixture
def describe_in(tmp_path: Path, bootstrap: str) -> Callable[[str, str], Pipeline]:
    """A description in a directory of its own, with storage of its own."""

    def write_down(directory: str, text: str) -> Pipeline:
        place = tmp_path / directory
        place.mkdir(exist_ok=True)
        (place / "order.avsc").write_text(json.dumps(AVRO))
        (place / "pipeline.yaml").write_text(f"bootstrap: {bootstrap}\n{text}\n")
        return load_pipeline(place)

    return write_down


@pytest.fixture
def run(runner: SparkProcess) -> Run:
    """Brings a pipeline up to date, as often as Spark's processes miss each other."""

    def bring_up_to_date(
        pipeline: Pipeline,
        *anew: str,
        start: str | None = None,
        backfill: Collection[str] = (),
        spark: ProjectRunner = runner,
    ) -> list[TableSummary]:
        prepare(pipeline, print, anew, start, backfill)
        while True:
            try:
                return run_once(pipeline, spark, print)
            except TidelogError as error:
                if MISSED not in str(error):
                    raise

    return bring_up_to_date


def datum(number: int) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, AVRO, {"id": number})
    return out.getvalue()


def rows_of(pipeline: Pipeline, name: str) -> list[Row]:
    """The rows of a table in the order of their places, without our own columns."""
    path = State(pipeline.storage).table(name)
    if DeltaTable.is_deltatable(str(path)):
        table = DeltaTable(str(path)).to_pyarrow_table()
    else:
        table = ds.dataset(path, format="parquet").to_table()
    rows: list[Row] = table.sort_by("_offset").to_pylist()
    return [{name: each[name] for name in each if not name.startswith("_")} for each in rows]


def reasons(pipeline: Pipeline, name: str) -> list[str]:
    table = DeltaTable(str(State(pipeline.storage).quarantine(name))).to_pyarrow_table()
    found: list[str] = table.sort_by("_offset")["_reason"].to_pylist()
    return found


def expect_no_findings(session: SparkSession, pipeline: Pipeline) -> None:
    for table in pipeline.stored_tables():
        project = State(pipeline.storage).project
        assert audit_table(session, pipeline, project, table.name).findings == []


def test_tables_of_every_format_go_on_over_changes_refreshes_and_a_second_pipeline(
    describe_in: Callable[[str, str], Pipeline],
    run: Run,
    make_topic: MakeTopic,
    write: Write,
    session: SparkSession,
) -> None:
    for topic in ("objects", "lines", "datums", "words"):
        make_topic(topic, partitions=1)
    write("objects", [b'{"id": 1}', b'{"id": 2}'])
    write("lines", [b"1;a", b"x;b"])
    write("datums", [datum(7), b""])
    write("words", [b"one", b"\xff"])
    first = describe_in("first", FIRST)
    run(first)
    assert rows_of(first, "objects") == [{"id": 1}, {"id": 2}]
    assert rows_of(first, "lines") == [{"id": 1, "name": "a"}]
    assert reasons(first, "lines") == ["the value is not a line of id bigint, name string"]
    assert rows_of(first, "datums") == [{"id": 7}]
    assert len(reasons(first, "datums")) == 1
    assert rows_of(first, "words") == [{"value": "one"}]
    assert reasons(first, "words") == ["the value is not UTF-8"]
    assert [each["value"] for each in rows_of(first, "bytes")] == [b"one", b"\xff"]

    second = describe_in("second", SECOND + "schema: {id: bigint}}}}")
    run(second)
    assert rows_of(second, "own") == [{"id": 1}, {"id": 2}]

    write("objects", [b'{"id": 3, "note": "new"}', b'{"id": "three"}'])
    write("words", [b"two", b"three"])
    write("lines", [b"2;c", b"3;d"])
    run(first, "lines", start="-2")
    assert rows_of(first, "objects") == [
        {"id": 1, "note": None}, {"id": 2, "note": None}, {"id": 3, "note": "new"},
    ]  # fmt: skip
    assert reasons(first, "objects") == ["the value does not fit the schema: id is not bigint"]
    assert rows_of(first, "lines") == [{"id": 2, "name": "c"}, {"id": 3, "name": "d"}]
    assert rows_of(first, "words") == [{"value": each} for each in ("one", "two", "three")]
    words = State(first.storage).table("words")
    assert len(DeltaTable(str(words)).file_uris()) == 1, "two batches, merged"
    expect_no_findings(session, first)

    changed = describe_in("second", SECOND + "schema: {id: string}}}}")
    with pytest.raises(PipelineTrouble, match="column id of own is long and would be string"):
        run(changed)
    run(changed, "own")
    assert [each["id"] for each in rows_of(changed, "own")] == ["1", "2", "3", "three"]


def test_a_backfill_that_dies_between_decision_and_commit_brings_every_older_record_once(
    describe_in: Callable[[str, str], Pipeline],
    run: Run,
    make_topic: MakeTopic,
    write: Write,
    session: SparkSession,
    runner: SparkProcess,
) -> None:
    make_topic("past", partitions=1)
    write("past", [b"one", b"\xff", b"three"])
    pipeline = describe_in("late", LATE)
    run(pipeline)
    assert rows_of(pipeline, "late") == []
    write("past", [b"four"])

    with pytest.raises(Killed):
        run(pipeline, start="earliest", backfill=["late"], spark=KilledAfterBackfill(runner))
    forget_last_commit(pipeline)
    assert rows_of(pipeline, "late") == [{"value": "four"}]

    (late,) = run(pipeline, start="earliest", backfill=["late"])
    assert rows_of(pipeline, "late") == [{"value": each} for each in ("one", "three", "four")]
    assert reasons(pipeline, "late") == ["the value is not UTF-8"]
    assert (late.rows_in, late.lag) == (0, 0), "all was decided by the run that died"
    assert pending_backfill(pipeline) == []
    expect_no_findings(session, pipeline)


class KilledAfterBackfill:
    """Runs projects in a Spark, and dies when that of the backfill has come to its end."""

    def __init__(self, spark: ProjectRunner) -> None:
        self._spark = spark

    def run(self, project: Path) -> None:
        self._spark.run(project)
        if project.parent.name == "backfill":
            raise Killed


def forget_last_commit(pipeline: Pipeline) -> None:
    """Make the table what it was when its backfill had decided and its quarantine was done."""
    (flows,) = pending_backfill(pipeline)
    max((flows.state.table("late") / "_delta_log").glob("*.json")).unlink()
    (flows.state.decisions("late") / "backfill" / "carried_out").unlink()
    for name in ("0", ".0.crc"):
        (flows.state.checkpoints("late") / "late" / "0" / "commits" / name).unlink()
