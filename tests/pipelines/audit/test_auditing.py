"""What an audit does around the comparison, which tests of whole runs look at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, cast

import pytest
from deltalake import DeltaTable, Schema
from pyspark.errors import PySparkException
from tests.pipelines.commit_rounds import COLUMNS, ROWS, write_part
from tests.pipelines.conftest import Describe
from tests.pipelines.memory_topics import MemoryTopics
from typer import Exit

from tidelog.cli.pipelines import print_audits
from tidelog.pipelines.audit.auditing import audit_pipeline
from tidelog.pipelines.audit.comparing import Finding, TableAudit, _ends
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.run.running import targets
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.table_commit import TableCommit
from tidelog.spark.errors import DataLoss, SourceError
from tidelog.spark.options import ReadOptions

ONE = "name: x\ntables: {orders: {topics: orders}}"


class SparkIsAsked(Exception):
    """The audit has come as far as Spark."""


def no_spark(*_: Any) -> NoReturn:
    raise SparkIsAsked


@pytest.fixture
def describe(describe: Describe) -> Describe:
    """The pipeline that a text describes, in a cluster that has its topics."""
    topics = MemoryTopics({"orders": 1, "o": 1}, {}, {})
    return lambda text: replace(describe(text), topics=lambda _: topics)


def test_what_was_decided_is_carried_out_before_the_tables_are_compared(
    describe: Describe,
) -> None:
    pipeline = describe(ONE)
    target = targets(pipeline)["orders"]
    commit = TableCommit(target)
    columns = Schema.from_arrow(COLUMNS)
    commit.prepare(columns)
    commit.decide(0, columns, [write_part(target, 0, 0, lambda offset: False)])  # it died here
    assert DeltaTable(str(target.table)).to_pyarrow_table().num_rows == 0
    with pytest.raises(SparkIsAsked):
        audit_pipeline(pipeline, [], None, lambda _: None, no_spark)
    assert DeltaTable(str(target.table)).to_pyarrow_table().num_rows == ROWS


def test_no_batch_is_known_where_decisions_or_checkpoint_are_gone(describe: Describe) -> None:
    pipeline = describe(ONE)
    state, table = State(pipeline.storage), pipeline.tables["orders"]
    offsets = state.checkpoints("orders") / "orders" / "0" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text('v1\n{}\n{"orders": {"0": 10}}')
    assert _ends(state, table) == {}
    target = targets(pipeline)["orders"]
    columns = Schema.from_arrow(COLUMNS)
    part = write_part(target, 0, 0, lambda offset: False)
    TableCommit(target).decide(0, columns, [part])
    assert [each.offset for each in _ends(state, table).values()] == [10]
    (offsets / "0").unlink()
    assert _ends(state, table) == {}


class Losing:
    """A Spark that finds records gone, whatever it is asked for."""

    def __getattr__(self, asked: str) -> NoReturn:
        lost = DataLoss("Offsets out of range: orders-0 has offsets [0, 3)")
        raise PySparkException(f"Traceback:\ntidelog.spark.errors.DataLoss: {lost}\n")

    def stop(self) -> None:
        """Nothing runs."""


def test_what_is_lost_while_an_audit_reads_is_told_in_words_of_the_description(
    describe: Describe,
) -> None:
    pipeline = describe(ONE)
    pipeline.state.checkpoints("orders").mkdir(parents=True)
    with pytest.raises(PipelineTrouble) as refused:
        audit_pipeline(pipeline, [], None, lambda _: None, lambda *_: cast(Any, Losing()))
    assert str(refused.value).startswith("the audit failed: Offsets out of range: orders-0 has")
    assert "`on_data_loss: go_on`" in str(refused.value)


def test_a_cluster_that_is_away_is_told_before_spark_starts(describe: Describe) -> None:
    def away(_: ReadOptions) -> NoReturn:
        raise SourceError("no broker answers")

    with pytest.raises(SourceError):
        audit_pipeline(replace(describe(ONE), topics=away), [], None, lambda _: None, no_spark)


def test_what_never_ran_is_not_called_clean(describe: Describe) -> None:
    pipeline = describe("name: x\ntables: {a: {topics: o}, b: {from: a}}")
    for asked in ([], ["b"]):
        with pytest.raises(PipelineTrouble, match="never ran, so nothing can be audited: run the"):
            audit_pipeline(pipeline, asked, None, lambda _: None, no_spark)
    pipeline.state.checkpoints("a").mkdir(parents=True)
    with pytest.raises(PipelineTrouble, match=r"b never ran.*, or audit the others: --table a"):
        audit_pipeline(pipeline, [], None, lambda _: None, no_spark)
    with pytest.raises(SparkIsAsked):
        audit_pipeline(pipeline, ["a"], None, lambda _: None, no_spark)


def test_a_table_that_took_no_record_is_not_called_proved(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_audits([TableAudit("orders", 0, 0, 0, 0, 0, [])], as_json=False)
    told = capsys.readouterr().err
    assert "orders: no record was taken yet, so there is nothing to prove" in told


def test_all_findings_are_counted_although_not_all_are_listed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = Finding("orders", "orders", 0, 7, "lost: neither in the table nor in quarantine")
    found = [TableAudit("orders", 5000, 2500, 0, 0, 2500, [one, one._replace(offset=8)])]
    with pytest.raises(Exit) as ended:
        print_audits(found, as_json=False)
    assert ended.value.exit_code == 1
    assert "2500 findings, the first 2 are listed" in capsys.readouterr().err
