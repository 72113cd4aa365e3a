"""Pipelines as a user runs them: real brokers, real Spark, and processes that are killed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.integration.raw import until
from tests.pipelines.killing import RECORDS, Killing
from tests.spark.conftest import MakeTopic, Write
from tests.spark.processes import tidelog
from tests.spark.standalone import standalone

from tidelog.pipelines.audit.comparing import TableAudit, audit_table
from tidelog.pipelines.description.example import write_example
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.state import State
from tidelog.testing.cluster import Cluster

pytestmark = pytest.mark.usefixtures("spark")

TIMEOUT_S = 600


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=TIMEOUT_S)
    return process.returncode, out, err


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

    table = DeltaTable(str(tables / "bronze"))
    table.delete("_offset = 7")
    twice = table.to_pyarrow_table(filters=[("_offset", "=", 11)])
    write_deltalake(str(tables / "bronze"), pa.table(twice), mode="append")
    code, out, err = finish(tidelog("audit", str(directory), "--json"))
    assert code == 1, err
    found = [json.loads(line) for line in out.splitlines()]
    assert [(each["table"], each["offset"], each["finding"]) for each in found] == [
        ("bronze", 7, "lost: neither in the table nor in quarantine"),
        ("bronze", 11, "doubled: 2 times in the table"),
    ]


def test_every_record_is_there_once_after_kills_of_driver_executor_and_broker(
    tmp_path: Path, cluster: Cluster, session: SparkSession
) -> None:
    (tmp_path / "shop").mkdir()
    with (
        standalone(tmp_path / "spark", cores=2) as spark,
        Killing(cluster, tmp_path / "shop", seed=1, spark=spark) as killing,
    ):
        killing.add_topic()
        killing.start()
        killing.kill("an executor", "kept planned")
        killing.kill("jvm", "files decided")
        killing.add_topic()  # it comes late
        killing.kill("1 broker", "copied planned")
        killing.finish()
        until(lambda: bool(killing.summaries()), TIMEOUT_S)
        copied = next(each for each in killing.summaries() if each["table"] == "copied")
        assert copied["rows_out"] is None
        killing.end()
    found = audit(session, killing.pipeline)
    assert found["kept"].findings == [] and found["files"].findings == []
    assert found["kept"].records == 3 * (RECORDS + 2)
    assert found["kept"].quarantined == 3 * 2
