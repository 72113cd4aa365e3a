"""How a backfill ends: its starts become those of the tables, whatever died or went away before."""

from __future__ import annotations

from dataclasses import replace

import pytest
from deltalake import Schema
from tests.pipelines.backfill_bench import (
    SECOND,
    Asked,
    asked,
    at,
    begun,
    commit_all,
    commit_to,
    describe,
    offsets,
)
from tests.pipelines.commit_rounds import COLUMNS, ROWS, RULES, TASKS, write_part
from tests.pipelines.conftest import Describe
from tests.pipelines.dying import killed_before
from tests.pipelines.tables.test_table_commit import offsets_of

from tidelog.pipelines.audit.auditing import audit_pipeline
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.project.source_options import pinned_end, pinned_start
from tidelog.pipelines.run.backfill import (
    drop_gone,
    forget_backfill,
    pending_backfill,
    settle_backfill,
)
from tidelog.pipelines.run.data_loss import check_losses
from tidelog.pipelines.run.progress import totals
from tidelog.pipelines.run.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.run.running import targets
from tidelog.pipelines.tables.decisions import Decisions
from tidelog.pipelines.tables.durable import replace_file
from tidelog.pipelines.tables.table_commit import TableCommit
from tidelog.pipelines.tables.table_writing import target_of
from tidelog.spark.source.offsets import Position

__all__ = ["asked", "begun", "describe"]


def test_starts_move_back_when_all_is_there_and_nothing_is_left_to_bring(
    begun: Pipeline, asked: Asked
) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    commit_all(flows, 10)
    settle_backfill(flows, asked.told.append)
    assert pending_backfill(begun) == []
    assert offsets(pinned_start(begun.state, "a")) == [3, 20]
    assert offsets(pinned_start(begun.state, "b")) == [3, 30]
    for each in (flows.state.checkpoints("a"), flows.state.start_file("a")):
        assert not each.exists(), "another one begins with a checkpoint of its own"
    asked.told.clear()
    asked.backfill(begun, "a", "other")
    assert pending_backfill(begun) == []
    assert asked.told == [
        f"{name} has all records from there on: nothing to backfill" for name in ("b", "a", "other")
    ]


def test_one_that_has_not_come_to_its_end_stays(begun: Pipeline, asked: Asked) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    commit_all(flows, 10)
    commit_to(flows.state, "b_quarantine", 9)
    settle_backfill(flows, asked.told.append)
    assert pending_backfill(begun)[0].backfill == ("b",)
    assert offsets(pinned_start(begun.state, "b")) == [10, 30]
    told = "b: the backfill has not come to its end; the next run goes on with it"
    assert asked.told[-1] == told


@pytest.mark.parametrize("on_data_loss", ["fail", "go_on"])
def test_a_partition_that_went_away_is_dropped_or_refused(
    describe: Describe, asked: Asked, on_data_loss: str
) -> None:
    pipeline = describe(
        f"name: x\ntables: {{a: {{pattern: o, start: latest, on_data_loss: {on_data_loss}}}}}"
    )
    replace_file(pipeline.state.start_file("a"), '{"o": {"0": 10, "1": 45}}')
    commit_to(pipeline.state, "a", 50)
    asked.backfill(pipeline, "a")
    (flows,) = pending_backfill(pipeline)
    commit_to(flows.state, "a", 10)
    asked.latest = {SECOND: Position(50)}
    check_losses(flows, asked.told.append)
    drop_gone(pipeline)  # it had been read to its end
    assert pinned_start(flows.state, "a").keys() == pinned_end(flows.state, "a").keys() == {SECOND}
    del asked.told[:]
    asked.latest = {}
    if on_data_loss == "fail":
        with pytest.raises(PipelineTrouble, match="o-1 is no longer there, it was read up to"):
            check_losses(flows, asked.told.append)
    else:
        check_losses(flows, asked.told.append)
        assert asked.told == [
            "a: o-1 is no longer there, it was read up to offset 40; going on with what is left"
        ]
        drop_gone(pipeline)
        assert not pending_backfill(pipeline)


def test_one_that_dies_while_it_is_forgotten_has_carried_out_what_it_decided(
    describe: Describe,
) -> None:
    pipeline = describe("name: x\ntables: {orders: {topics: o, format: parquet}}")
    (target,) = targets(pipeline).values()
    older = replace(target, backfill=True)
    columns = Schema.from_arrow(COLUMNS)
    commit = TableCommit(older)
    commit.prepare(columns)
    commit.decide(0, columns, [write_part(older, 0, 0, RULES["third"])])
    TableCommit(target).finish()
    for file in target.table.rglob("*.parquet"):  # they are their owner's by now
        file.unlink()
    with killed_before("shutil.rmtree", target.decisions / "backfill"):
        forget_backfill(pipeline.state, "orders")
    (target.decisions / "backfill" / "carried_out").unlink()
    TableCommit(target).finish()
    assert Decisions(target.decisions, backfill=True).last() is None


@pytest.mark.parametrize("end_file_is_gone", [False, True])
def test_one_that_dies_while_it_settles_is_settled_once(
    begun: Pipeline, asked: Asked, end_file_is_gone: bool
) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    commit_all(flows, 10)
    end = flows.state.end_file("a")
    with killed_before("open", end.parent) if end_file_is_gone else killed_before("os.remove", end):
        settle_backfill(flows, asked.told.append)
    for each in pending_backfill(begun):
        settle_backfill(each, asked.told.append)
    assert pending_backfill(begun) == []
    assert offsets(pinned_start(begun.state, "a")) == [3, 20]


def test_a_table_that_is_built_anew_is_backfilled_no_more(begun: Pipeline, asked: Asked) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    commit_to(flows.state, "a", 5)
    request_refresh(begun, ["a"])
    finish_refreshes(begun)
    assert pending_backfill(begun)[0].backfill == ("b",)
    assert not flows.state.checkpoints("a").exists()


@pytest.mark.parametrize("form", ["delta", "parquet"])
def test_what_both_flows_had_decided_is_carried_out_before_the_rest_is_cleared(
    describe: Describe, form: str
) -> None:
    pipeline = describe(f"name: x\ntables: {{orders: {{topics: o, format: {form}}}}}")
    (target,) = targets(pipeline).values()
    older = target_of({
        "path": str(target.table), "quarantine": str(target.quarantine), "format": form,
        "decisions": str(target.decisions), "backfill": "true",
    })  # fmt: skip
    columns = Schema.from_arrow(COLUMNS)
    for batch, each in enumerate((target, older)):
        commit = TableCommit(each)
        commit.prepare(columns)
        part = replace(write_part(each, batch, 0, RULES["third"]), query=f"query-{batch}")
        commit.decide(0, columns, [part])  # it died here
    for _ in range(2):
        TableCommit(target).finish()
        assert target.quarantine is not None
        found = offsets_of(target.table) + offsets_of(target.quarantine)
        assert sorted(found) == [*range(ROWS), *range(TASKS * ROWS, (TASKS + 1) * ROWS)]
    last = Decisions(target.decisions, backfill=True).last()
    assert last is not None and last.total.all == ROWS
    assert totals(pipeline)["orders"].all == ROWS, "each flow counts its own"


def test_an_audit_waits_for_the_end_of_a_backfill(begun: Pipeline, asked: Asked) -> None:
    asked.backfill(begun, "a")
    with pytest.raises(PipelineTrouble, match="a backfill of a is not done: run the pipeline"):
        audit_pipeline(begun, ["a"], None, asked.told.append)


def test_only_what_a_backfill_has_still_to_read_can_be_lost_to_it(
    begun: Pipeline, asked: Asked
) -> None:
    asked.start = at(3, 5)
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    check_losses(flows, asked.told.append)
    commit_all(flows, 10)  # the first partition is done
    asked.earliest = at(40, 5)
    check_losses(flows, asked.told.append)
    asked.earliest = at(40, 7)
    with pytest.raises(PipelineTrouble, match="offsets 5 to 6 of o-1 were gone") as refused:
        check_losses(flows, asked.told.append)
    assert "o-0" not in str(refused.value)
