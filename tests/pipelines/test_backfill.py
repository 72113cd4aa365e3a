"""Older records come into tables that are there, each by one flow, however often a run dies."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from deltalake import Schema
from tests.pipelines.commit_rounds import COLUMNS, ROWS, RULES, TASKS, write_part
from tests.pipelines.conftest import Describe
from tests.pipelines.test_table_commit import offsets_of
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.model.ids import TopicPartition
from tidelog.pipelines import backfill, data_loss, pinning
from tidelog.pipelines.auditing import audit_pipeline
from tidelog.pipelines.backfill import (
    drop_gone,
    forget_backfill,
    pending_backfill,
    request_backfill,
    settle_backfill,
)
from tidelog.pipelines.data_loss import check_losses
from tidelog.pipelines.decisions import Decisions
from tidelog.pipelines.durable import replace_file
from tidelog.pipelines.mistakes import PipelineTrouble
from tidelog.pipelines.pinning import pin_schemas, pin_starts
from tidelog.pipelines.progress import totals
from tidelog.pipelines.project import SPEC_FILE, write_project
from tidelog.pipelines.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.running import targets
from tidelog.pipelines.source_options import pinned_end, pinned_start, stream_options
from tidelog.pipelines.spec import Column, Pipeline
from tidelog.pipelines.state import State
from tidelog.pipelines.table_commit import TableCommit
from tidelog.pipelines.table_writing import target_of
from tidelog.spark.offsets import Position, Positions

FIRST, SECOND = TopicPartition("o", 0), TopicPartition("o", 1)
CHAIN = """
name: x
tables:
  b: {from: a, to_topic: p}
  a: {topics: o, start: latest, decode: {format: json}}
  other: {topics: o}
"""


def at(first: int, second: int) -> Positions:
    return {FIRST: Position(first), SECOND: Position(second)}


def offsets(positions: Positions) -> list[int]:
    return [each.offset for _, each in sorted(positions.items())]


class Asked:
    """A cluster that a test moves, and what it was told."""

    def __init__(self) -> None:
        self.earliest, self.latest, self.start = at(0, 0), at(50, 50), at(3, 40)
        self.told: list[str] = []

    def ends_now(self, *_: Any) -> tuple[Positions, Positions]:
        return self.earliest, self.latest

    def backfill(self, pipeline: Pipeline, *tables: str, start: str = "-2") -> None:
        request_backfill(pipeline, tables, start, self.told.append)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    found = Asked()
    for module in (backfill, data_loss, pinning):
        monkeypatch.setattr(module, "ends_now", found.ends_now)
    monkeypatch.setattr(backfill, "start_of", lambda *_: found.start)
    return found


def commit_to(state: State, flow: str, offset: int) -> None:
    for kind, text in (("offsets", f'v1\n{{}}\n{{"o": {{"0": {offset}}}}}'), ("commits", "v1")):
        path = state.checkpoints(flow) / flow / "0" / kind / "0"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def commit_all(flows: Pipeline, offset: int) -> None:
    for name in flows.backfill:
        for flow in flows.tables[name].flows:
            commit_to(flows.state, flow, offset)


@pytest.fixture
def begun(describe: Describe) -> Pipeline:
    """A pipeline whose tables have taken a batch; `other` began with the first record."""
    pipeline = describe(CHAIN)
    for name, second in (("a", 20), ("b", 30)):
        replace_file(pipeline.state.start_file(name), f'{{"o": {{"0": 10, "1": {second}}}}}')
    for flow in ("a", "b", "b_quarantine", "other"):
        commit_to(pipeline.state, flow, 50)
    return pipeline


def test_flows_of_their_own_read_up_to_where_each_table_had_started(
    begun: Pipeline, asked: Asked, tmp_path: Path
) -> None:
    asked.start = at(3, 25)  # `a` has the second partition from 20 on
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    assert flows.backfill == ("b", "a")
    assert {name: (offsets(pinned_start(flows.state, name)), offsets(pinned_end(flows.state, name)))
            for name in flows.backfill} == {"a": ([3], [10]), "b": ([3, 25], [10, 30])}  # fmt: skip
    assert asked.told == [
        "b: a backfill of 12 offsets before its start",
        "a: a backfill of 7 offsets before its start",
    ]
    options = stream_options(flows, "a")
    assert json.loads(options["assign"]) == {"o": [0]} and "subscribe" not in options
    assert json.loads(options["startingOffsets"]) == {"o": {"0": 3}}
    assert json.loads(options["endingOffsets"]) == {"o": {"0": 10}}
    assert "endingOffsets" not in stream_options(begun, "a")


def test_its_project_has_checkpoints_and_decisions_of_its_own(
    begun: Pipeline, asked: Asked, tmp_path: Path
) -> None:
    replace_file(begun.state.schema_file("a"), json.dumps({"id": "bigint"}))
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    write_project(flows, flows.state.project)
    written = {each.stem for each in (flows.state.project / "transformations").iterdir()}
    assert written == {"a", "b"}
    spec = yaml.safe_load((flows.state.project / SPEC_FILE).read_text())
    assert spec["storage"] == (begun.state.root / "backfill").as_uri()
    assert "'backfill': 'true'" in (flows.state.project / "transformations" / "a.py").read_text()
    sink = {"path": "t", "decisions": "d"}
    assert target_of({**sink, "backfill": "true"}).backfill and not target_of(sink).backfill


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


def test_a_table_that_has_taken_nothing_just_starts_there(describe: Describe, asked: Asked) -> None:
    pipeline = describe("name: x\ntables: {a: {topics: o, start: latest, decode: text}}")
    replace_file(pipeline.state.start_file("a"), '{"o": {"0": 50, "1": 50}}')
    asked.backfill(pipeline, "a")
    assert pending_backfill(pipeline) == []
    assert offsets(pinned_start(pipeline.state, "a")) == [3, 40]
    assert asked.told == ["a has taken nothing yet: it starts there"]


def test_what_cannot_be_backfilled_is_refused_with_the_fix(begun: Pipeline, asked: Asked) -> None:
    with pytest.raises(PipelineTrouble, match="b goes on from a and would be ahead of it"):
        asked.backfill(begun, "b")
    with pytest.raises(PipelineTrouble, match="there is no table c"):
        asked.backfill(begun, "c")
    with pytest.raises(PipelineTrouble, match="is not earliest, latest, -100"):
        asked.backfill(begun, "a", start="yesterday")
    asked.earliest = at(5, 0)
    with pytest.raises(PipelineTrouble, match=r"3 to 4 of o-0 were gone.*--from earliest"):
        asked.backfill(begun, "a")
    assert pending_backfill(begun) == []


def test_the_same_asked_again_goes_on_and_another_one_waits(begun: Pipeline, asked: Asked) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    asked.start = at(5, 50)  # -2 means something else by now
    asked.backfill(begun, "a")
    assert asked.told[-1] == "going on with the backfill of b, a"
    assert offsets(pinned_start(flows.state, "a")) == [3]
    asked.backfill(begun, "a", "a")
    assert asked.told[-1] == "going on with the backfill of b, a"
    with pytest.raises(PipelineTrouble, match="of b, a is not done: run without --backfill first"):
        asked.backfill(begun, "a", start="earliest")


def die(*_: Any) -> None:
    raise KeyboardInterrupt


def test_one_that_was_not_asked_for_to_the_end_leaves_nothing_to_the_next(
    begun: Pipeline, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    def replace_until_asked(path: Path, text: str) -> None:
        die() if path == begun.state.backfill_request else replace_file(path, text)

    monkeypatch.setattr(backfill, "replace_file", replace_until_asked)
    with pytest.raises(KeyboardInterrupt):
        asked.backfill(begun, "a")
    assert pending_backfill(begun) == []
    monkeypatch.setattr(backfill, "replace_file", replace_file)
    replace_file(begun.state.start_file("other"), '{"o": {"0": 10, "1": 10}}')
    asked.backfill(begun, "other")
    assert pending_backfill(begun)[0].backfill == ("other",)


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


def test_a_table_that_comes_while_another_is_backfilled_starts_where_that_will_have(
    begun: Pipeline, describe: Describe, asked: Asked
) -> None:
    asked.backfill(begun, "a")
    more = describe(CHAIN + "  c: {from: a}\n")
    pin_starts(more)
    for flows in pending_backfill(more):
        commit_all(flows, 10)
        settle_backfill(flows, asked.told.append)
    assert offsets(pinned_start(more.state, "c")) == offsets(pinned_start(more.state, "a"))


def test_one_that_dies_while_it_is_forgotten_has_carried_out_what_it_decided(
    describe: Describe, monkeypatch: pytest.MonkeyPatch
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
    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr(shutil, "rmtree", die)
        forget_backfill(pipeline.state, "orders")
    (target.decisions / "backfill" / "carried_out").unlink()
    TableCommit(target).finish()
    assert Decisions(target.decisions, backfill=True).last() is None


@pytest.mark.parametrize("moment", ["sync_directory", "forget_backfill"])
def test_one_that_dies_while_it_settles_is_settled_once(
    begun: Pipeline, asked: Asked, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    asked.backfill(begun, "a")
    (flows,) = pending_backfill(begun)
    commit_all(flows, 10)
    monkeypatch.setattr(backfill, moment, die)
    with pytest.raises(KeyboardInterrupt):
        settle_backfill(flows, asked.told.append)
    monkeypatch.undo()
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


def test_columns_that_only_older_records_have_are_pinned(
    begun: Pipeline, asked: Asked, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_file(begun.state.schema_file("a"), json.dumps({"id": "bigint"}))
    asked.backfill(begun, "a")
    looked_at: list[list[int]] = []

    def infer(pipeline: Pipeline, table: str, position: Positions) -> tuple[Column, ...]:
        looked_at.append(offsets(position))
        return (Column("note", "string"),)

    monkeypatch.setattr(pinning, "infer_columns", infer)
    pin_schemas(pending_backfill(begun)[0], asked.told.append)
    assert looked_at == [[3]]
    assert asked.told[-1] == "column note string of a is pinned"
    assert json.loads(begun.state.schema_file("a").read_text()) == {
        "id": "bigint",
        "note": "string",
    }


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--from", "-2"], "--from needs --backfill TABLE or --full-refresh"),
        (["--backfill", "a"], "--backfill needs --from START"),
        (["--backfill", "a", "--full-refresh", "b", "--from", "-2"], "are two runs"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: list[str], why: str) -> None:
    told = CliRunner().invoke(app, ["pipelines", "run", *options], env={"COLUMNS": "200"})
    assert told.exit_code == 2
    assert why in told.output
