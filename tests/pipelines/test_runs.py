"""Pipelines as a user runs them: real brokers, real Spark, and processes that are killed."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.integration.raw import until
from tests.pipelines.comparing import committed_records
from tests.pipelines.processes import killed_at_the_end, python_workers, tidelog
from tests.spark.conftest import MakeTopic, Write

from tidelog.pipelines.audit import TableAudit, audit_table
from tidelog.pipelines.decisions import Decisions
from tidelog.pipelines.example import write_example
from tidelog.pipelines.parsing import load_pipeline
from tidelog.pipelines.spec import Pipeline
from tidelog.pipelines.state import State
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.usefixtures("spark")

TIMEOUT_S = 600
KILLED = """
name: killed
max_offsets_per_batch: 300
tables:
  kept:
    pattern: killed-.*
    start: -100000
    decode: {format: json, schema: {id: bigint not null, name: string}}
    rules: {id is not too large: id < 100000}
    partition_by: _topic
  files:
    from: kept
    steps: [{where: id % 2 = 0}]
    format: parquet
  copied:
    from: kept
    to_topic: {topic: copies, key: id, value: cast(id as string)}
"""


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


def wait_until(holds: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    until(lambda: process.poll() is not None or holds(), TIMEOUT_S)
    assert process.poll() is None, process.communicate()


def audit(session: SparkSession, pipeline: Pipeline) -> dict[str, TableAudit]:
    project = State(pipeline.storage).project
    return {
        each.name: audit_table(session, pipeline, project, each.name)
        for each in pipeline.stored_tables()
    }


def test_the_example_runs_and_the_audit_finds_a_lost_and_a_doubled_row(
    tmp_path: Path,
    bootstrap: str,
    make_topic: MakeTopic,
    write: Write,
    session: SparkSession,
) -> None:
    directory = tmp_path / "shop"
    write_example(directory, bootstrap)
    make_topic("orders", partitions=1)
    write("orders", (directory / "orders.jsonl").read_bytes().splitlines())

    code, out, err = finish(tidelog("run", str(directory), "--json"))
    assert code == 0, err
    bronze, silver = map(json.loads, out.splitlines())
    assert bronze == {
        "table": "bronze", "rows_in": 100, "rows_out": 98, "quarantined": 2, "dropped": 0, "lag": 0,
    }  # fmt: skip
    assert silver == {
        "table": "silver", "rows_in": 100, "rows_out": 97, "quarantined": 1, "dropped": 2, "lag": 0,
    }  # fmt: skip
    tables = directory / "tables"
    refused = DeltaTable(str(tables / "bronze_quarantine")).to_pyarrow_table().to_pylist()
    assert {(each["_offset"], each["_reason"]) for each in refused} == {
        (98, "the value does not fit the schema: order_id is not bigint"),
        (99, "the value is not JSON"),
    }
    revenue = DeltaTable(str(tables / "daily_revenue")).to_pyarrow_table()
    assert sum(revenue["orders"].to_pylist()) == 97

    pipeline = load_pipeline(directory)
    for found in audit(session, pipeline).values():
        assert (found.records, found.findings) == (100, [])

    table = DeltaTable(str(tables / "bronze"))
    table.delete("_offset = 7")
    twice = table.to_pyarrow_table(filters=[("_offset", "=", 11)])
    write_deltalake(str(tables / "bronze"), pa.table(twice), mode="append")
    code, out, err = finish(tidelog("audit", str(directory), "--table", "bronze", "--json"))
    assert code == 1, err
    assert [(each["offset"], each["finding"]) for each in map(json.loads, out.splitlines())] == [
        (7, "lost: neither in the table nor in quarantine"),
        (11, "doubled: 2 times in the table"),
    ]


def committed_values(bootstrap: str, topic: str) -> Counter[str]:
    return Counter(value.decode() for value in committed_records(bootstrap, [topic]).values())


def orders(first: int, count: int) -> list[bytes]:
    good = [json.dumps({"id": each, "name": f"order {each}"}) for each in range(first, count)]
    return [each.encode() for each in [*good, "bad", '{"id": 100001}']]


def test_every_record_is_there_once_after_kills_of_driver_worker_and_broker(
    tmp_path: Path,
    cluster: Cluster,
    bootstrap: str,
    make_topic: MakeTopic,
    write: Write,
    session: SparkSession,
) -> None:
    (tmp_path / "pipeline.yaml").write_text(f"bootstrap: {bootstrap}\n{KILLED}")
    pipeline = load_pipeline(tmp_path)
    decisions = Decisions(State(pipeline.storage).decisions("kept"))
    make_topic("copies", partitions=2)
    make_topic("killed-1", partitions=2)
    write("killed-1", orders(0, 1200))

    def decided() -> int:
        last = decisions.last()
        return -1 if last is None else last.batch

    with killed_at_the_end(tidelog("run", str(tmp_path))) as driver:
        wait_until(lambda: decided() >= 1, driver)
    at = decided()

    with killed_at_the_end(
        tidelog("watch", str(tmp_path), "--master", "local[2,8]", "--json", "--every", "0.2")
    ) as watch:
        wait_until(lambda: decided() > at, watch)
        for worker in python_workers(watch.pid):
            os.kill(worker, signal.SIGKILL)
        cluster.kill(101)
        cluster.start(101)
        assert watch.stdout is not None
        first = [json.loads(watch.stdout.readline()) for _ in pipeline.tables]
        assert [each["lag"] for each in first] == [0, 0, 0]
        copied = first[-1]
        assert copied["rows_out"] is None and 0 <= copied["rows_in"] <= 1202
        make_topic("killed-2", partitions=1)  # it comes late
        write("killed-2", orders(1200, 1300))
        done = committed_values(bootstrap, "copies")
        while sum(done.values()) < 1300:
            assert watch.stdout.readline()
            done = committed_values(bootstrap, "copies")
        os.killpg(watch.pid, signal.SIGINT)
        assert watch.wait(TIMEOUT_S) == 130

    assert done == Counter(str(each) for each in range(1300))
    found = audit(session, pipeline)
    assert found["kept"].findings == [] and found["files"].findings == []
    assert (found["kept"].rows, found["kept"].quarantined) == (1300, 4)
    assert found["files"].rows == 650
