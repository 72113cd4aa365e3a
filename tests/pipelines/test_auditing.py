"""What an audit does around the comparison, which tests of whole runs look at."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Schema
from tests.pipelines.commit_rounds import COLUMNS, ROWS, write_part
from tests.pipelines.conftest import Describe
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.pipelines import auditing
from tidelog.pipelines.audit import Finding, TableAudit
from tidelog.pipelines.auditing import audit_pipeline
from tidelog.pipelines.running import targets
from tidelog.pipelines.table_commit import TableCommit

ONE = "name: x\ntables: {orders: {topics: orders}}"


class SparkIsAsked(Exception):
    """The audit has come as far as Spark."""


def no_spark(*_: Any) -> None:
    raise SparkIsAsked


def test_what_was_decided_is_carried_out_before_the_tables_are_compared(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline = describe(ONE)
    target = targets(pipeline)["orders"]
    commit = TableCommit(target)
    columns = Schema.from_arrow(COLUMNS)
    commit.prepare(columns)
    commit.decide(0, columns, [write_part(target, 0, 0, lambda offset: False)])  # it died here
    assert DeltaTable(str(target.table)).to_pyarrow_table().num_rows == 0
    monkeypatch.setattr(auditing, "spark_session", no_spark)
    with pytest.raises(SparkIsAsked):
        audit_pipeline(pipeline, [], None, lambda _: None)
    assert DeltaTable(str(target.table)).to_pyarrow_table().num_rows == ROWS


def test_all_findings_are_counted_although_not_all_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pipeline.yaml").write_text(ONE)
    one = Finding("orders", "orders", 0, 7, "lost: neither in the table nor in quarantine")
    found = [TableAudit("orders", 5000, 2500, 0, 0, 2500, [one, one._replace(offset=8)])]
    monkeypatch.setattr(auditing, "audit_pipeline", lambda *_: found)
    told = CliRunner().invoke(app, ["pipelines", "audit", str(tmp_path)])
    assert told.exit_code == 1
    assert "2500 findings, the first 2 are listed" in told.output
