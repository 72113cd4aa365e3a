"""Older records come into tables that are there, each by one flow, however often a run dies."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from tests.pipelines.backfill_bench import (
    CHAIN,
    Asked,
    asked,
    at,
    begun,
    commit_all,
    describe,
    offsets,
)
from tests.pipelines.conftest import Describe
from tests.pipelines.dying import killed_before
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Column, Pipeline
from tidelog.pipelines.project.pinning import pin_schemas, pin_starts
from tidelog.pipelines.project.project import SPEC_FILE, write_project
from tidelog.pipelines.project.source_options import pinned_end, pinned_start, stream_options
from tidelog.pipelines.run.backfill import pending_backfill, settle_backfill
from tidelog.pipelines.tables.durable import replace_file
from tidelog.pipelines.tables.table_writing import target_of
from tidelog.spark.source.offsets import Positions

__all__ = ["asked", "begun", "describe"]


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


def test_one_that_was_not_asked_for_to_the_end_leaves_nothing_to_the_next(
    begun: Pipeline, asked: Asked
) -> None:
    with killed_before("os.rename", begun.state.backfill_request):
        asked.backfill(begun, "a")
    assert pending_backfill(begun) == []
    replace_file(begun.state.start_file("other"), '{"o": {"0": 10, "1": 10}}')
    asked.backfill(begun, "other")
    assert pending_backfill(begun)[0].backfill == ("other",)


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


def test_columns_that_only_older_records_have_are_pinned(begun: Pipeline, asked: Asked) -> None:
    replace_file(begun.state.schema_file("a"), json.dumps({"id": "bigint"}))
    asked.backfill(begun, "a")
    looked_at: list[list[int]] = []

    def infer(pipeline: Pipeline, table: str, position: Positions) -> tuple[Column, ...]:
        looked_at.append(offsets(position))
        return (Column("note", "string"),)

    pin_schemas(pending_backfill(begun)[0], asked.told.append, infer)
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
