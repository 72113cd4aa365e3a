"""What a pipeline asks the cluster before Spark starts."""

from __future__ import annotations

import json
from pathlib import Path
from textwrap import dedent

import pytest
from tests.pipelines.conftest import Describe
from tests.spark.conftest import MakeTopic, Write
from typer.testing import CliRunner

from tidelog.cli.main import app
from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import PipelineTrouble, SpecError
from tidelog.pipelines.description.spec import Column
from tidelog.pipelines.project.pinned import pinned_columns
from tidelog.pipelines.project.pinning import pin
from tidelog.pipelines.project.source_options import check_topics, pinned_start
from tidelog.pipelines.run.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.run.state import State
from tidelog.pipelines.run.summary import lag_of
from tidelog.spark.source.offsets import Position


def silent(_: str) -> None:
    """Nobody listens."""


def one_table(bootstrap: str, text: str) -> str:
    return f"name: x\nbootstrap: {bootstrap}\ntables:\n  a: {{{text}}}\n"


def test_a_topic_that_is_not_there_is_said_with_the_one_that_is(
    describe: Describe, bootstrap: str, make_topic: MakeTopic
) -> None:
    make_topic("purchases")
    pipeline = describe(one_table(bootstrap, "topics: purchasse, to_topic: elsewhere"))
    with pytest.raises(SpecError) as refused:
        check_topics(pipeline)
    first, second = (each.text for each in refused.value.mistakes)
    assert first.startswith("there is no topic elsewhere")
    assert second.startswith("there is no topic purchasse; did you mean purchases?")


def test_a_schema_is_inferred_once_and_grows(
    describe: Describe, bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic()
    pipeline = describe(one_table(bootstrap, f"topics: {topic}, decode: json"))
    with pytest.raises(PipelineTrouble, match="hold no JSON object yet"):
        pin(pipeline, silent)
    write(topic, [b'{"id": 1}', b"nonsense"])
    pin(pipeline, silent)
    assert pinned_columns(pipeline, "a") == (Column("id", "bigint"),)
    write(topic, [b'{"id": "text", "new": [1.5]}'])
    told: list[str] = []
    pin(pipeline, told.append)
    assert told == ["column new array<double> of a is pinned"]
    assert pinned_columns(pipeline, "a") == (Column("id", "bigint"), Column("new", "array<double>"))


def test_a_start_is_pinned_once_and_holds(
    describe: Describe, bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1)
    where = TopicPartition(topic, 0)
    write(topic, [b"x"] * 10)
    pipeline = describe(one_table(bootstrap, f"topics: {topic}, start: -3"))
    state = State(pipeline.storage)
    pin(pipeline, silent)
    assert pinned_start(state, "a") == {where: Position(7)}
    assert lag_of(pipeline, "a") == 3
    write(topic, [b"x"] * 5)
    pin(pipeline, silent)
    assert pinned_start(state, "a") == {where: Position(7)}
    planned = state.checkpoints("a") / "a" / "0" / "offsets"
    planned.mkdir(parents=True)
    (planned / "0").write_text("v1\n{}\n" + json.dumps({topic: {"0": 15}}))
    write(topic, [b"x"] * 5)
    pin(pipeline, silent)
    assert pinned_start(state, "a") == {where: Position(7)}
    assert lag_of(pipeline, "a") == 20 - 7


def test_a_backfill_that_was_cut_short_goes_on_as_a_backfill(
    describe: Describe, bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [b"x"] * 10)
    pipeline = describe(one_table(bootstrap, f"topics: {topic}"))
    state = State(pipeline.storage)
    request_refresh(pipeline, ["a"], "-3")
    write(topic, [b"x"] * 5)
    for _ in range(2):  # the next run, and the one after it, know of no backfill
        finish_refreshes(pipeline)
        pin(pipeline, silent)
        assert pinned_start(state, "a") == {TopicPartition(topic, 0): Position(7)}
    request_refresh(pipeline, ["a"])
    finish_refreshes(pipeline)
    assert pinned_start(state, "a") == {}


def test_a_start_that_is_none_and_a_topic_that_is_none_cost_no_table(
    tmp_path: Path, bootstrap: str, make_topic: MakeTopic
) -> None:
    path = tmp_path / "pipeline.yaml"
    table = tmp_path / "tables" / "a"
    table.mkdir(parents=True)
    run = CliRunner().invoke
    words = ["pipelines", "run", str(tmp_path), "--full-refresh", "a"]
    path.write_text(one_table(bootstrap, f"topics: {make_topic()}"))
    found = run(app, [*words, "--from", "yesterdy"])
    assert found.exit_code == 1 and "'yesterdy' is not earliest" in found.output
    path.write_text(one_table(bootstrap, "topics: nowhere"))
    found = run(app, words)
    assert found.exit_code == 1 and "there is no topic nowhere" in found.output
    assert table.exists() and not State(tmp_path / "tables").refresh_marker("a").exists()


def test_the_commands_write_an_example_and_check_it(
    tmp_path: Path, bootstrap: str, make_topic: MakeTopic
) -> None:
    directory = str(tmp_path / "shop")
    run = CliRunner().invoke
    assert run(app, ["pipelines", "init", directory, "--bootstrap", bootstrap]).exit_code == 0
    refused = run(app, ["pipelines", "check", directory])
    assert refused.exit_code == 1
    assert "pipeline.yaml:15: there is no topic orders" in refused.output
    make_topic("orders")
    checked = run(app, ["pipelines", "check", directory])
    assert checked.exit_code == 0
    assert checked.output.startswith(f"pipeline shop on {bootstrap}\n")
    drawn = run(app, ["pipelines", "check", directory, "--mermaid", "--offline"])
    assert drawn.output.startswith("graph LR\n")
    ejected = run(app, ["pipelines", "eject", str(tmp_path / "mine"), directory])
    assert ejected.exit_code == 0
    assert (tmp_path / "mine" / "transformations" / "silver.py").exists()
    again = run(app, ["pipelines", "eject", str(tmp_path / "mine"), directory])
    assert again.exit_code == 1


def test_a_backfill_says_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "pipeline.yaml").write_text(
        dedent("""
        name: x
        tables: {a: {topics: o}}
        """)
    )
    found = CliRunner().invoke(app, ["pipelines", "run", str(tmp_path), "--from", "earliest"])
    assert found.exit_code == 2
