"""Starts and inferred columns are settled once, and what is derived from them agrees with them."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.pipelines.conftest import Describe
from tests.pipelines.memory_topics import MemoryTopics

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import NotYet
from tidelog.pipelines.description.spec import Column, Pipeline
from tidelog.pipelines.project.pinned import pinned_columns
from tidelog.pipelines.project.pinning import pin, pin_start, started
from tidelog.pipelines.project.source_options import pinned_start
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.durable import replace_file
from tidelog.spark.options import ReadOptions
from tidelog.spark.source.offsets import Position, Positions

FIRST, SECOND = TopicPartition("o", 0), TopicPartition("o", 1)
CHAIN = """
name: x
tables:
  c: {from: b}
  b: {from: a}
  a: {topics: o, start: latest, decode: {format: json}}
"""


@pytest.fixture
def topic() -> dict[TopicPartition, tuple[int, int]]:
    """First and last offsets of partitions, which a test may move."""
    return {FIRST: (0, 10)}


@pytest.fixture
def describe(describe: Describe, topic: dict[TopicPartition, tuple[int, int]]) -> Describe:
    """The pipeline that a text describes, in the cluster of that topic."""

    def topics(_: ReadOptions) -> MemoryTopics:
        first = {each: Position(offset) for each, (offset, _) in topic.items()}
        last = {each: Position(offset) for each, (_, offset) in topic.items()}
        return MemoryTopics({"o": len(topic)}, first, last)

    return lambda text: replace(describe(text), topics=topics)


def starts(pipeline: Pipeline) -> dict[str, dict[TopicPartition, int]]:
    state = State(pipeline.storage)
    return {
        name: {each: at.offset for each, at in pinned_start(state, name).items()}
        for name in sorted(pipeline.tables)
    }


def test_a_table_that_goes_on_from_another_one_starts_where_that_one_started(
    describe: Describe,
    topic: dict[TopicPartition, tuple[int, int]],
) -> None:
    pipeline = describe(CHAIN)
    pin_start(pipeline, "a")
    topic[FIRST] = (0, 50)
    topic[SECOND] = (3, 5)
    pin(pipeline, lambda _: None, lambda *_: (Column("id", "bigint"),))
    assert starts(pipeline) == {name: {FIRST: 10, SECOND: 3} for name in "abc"}


def checkpointed(pipeline: Pipeline, flow: str, kind: str) -> None:
    table = flow.removesuffix("_quarantine")
    assert flow in pipeline.tables[table].flows
    directory = State(pipeline.storage).checkpoints(flow) / flow / "0" / kind
    directory.mkdir(parents=True)
    (directory / "0").write_text("v1")


def test_a_start_holds_once_the_first_batch_is_done(
    describe: Describe, topic: dict[TopicPartition, tuple[int, int]]
) -> None:
    pipeline = describe(CHAIN)
    pin_start(pipeline, "a")
    checkpointed(pipeline, "a", "offsets")
    checkpointed(pipeline, "a", "commits")
    topic[SECOND] = (3, 5)
    pin_start(pipeline, "a")
    assert starts(pipeline)["a"] == {FIRST: 10}


def test_a_first_batch_that_was_only_planned_is_read_again_with_the_partitions_of_now(
    describe: Describe, topic: dict[TopicPartition, tuple[int, int]]
) -> None:
    pipeline = describe(CHAIN)
    for name in "abc":
        pin_start(pipeline, name)
        checkpointed(pipeline, name, "offsets")
    topic[FIRST] = (0, 50)
    topic[SECOND] = (3, 5)
    for name in "abc":
        pin_start(pipeline, name)
    assert starts(pipeline) == {name: {FIRST: 10, SECOND: 3} for name in "abc"}


def test_a_start_is_open_until_both_flows_of_a_table_have_done_their_first_batch(
    describe: Describe, topic: dict[TopicPartition, tuple[int, int]]
) -> None:
    pipeline = describe("name: x\ntables: {a: {topics: o, start: latest, to_topic: p}}")
    pin_start(pipeline, "a")
    checkpointed(pipeline, "a", "commits")
    checkpointed(pipeline, "a_quarantine", "offsets")
    topic[SECOND] = (3, 5)
    pin_start(pipeline, "a")
    assert starts(pipeline)["a"] == {FIRST: 10, SECOND: 3}


def test_a_first_batch_that_began_with_the_first_records_keeps_to_them(
    describe: Describe, topic: dict[TopicPartition, tuple[int, int]]
) -> None:
    pipeline = describe(CHAIN)  # `start` was given after the first batch was planned
    checkpointed(pipeline, "a", "offsets")
    pin_start(pipeline, "a")
    assert starts(pipeline)["a"] == {}


def test_what_aged_out_before_a_table_was_added_is_not_its_loss() -> None:
    pinned, earliest = {FIRST: Position(5)}, {FIRST: Position(8), SECOND: Position(2)}
    assert started(pinned, earliest, inherited=True) == earliest
    assert started(pinned, earliest, inherited=False) == {**earliest, **pinned}


def test_the_first_record_needs_no_pin(
    describe: Describe, topic: dict[TopicPartition, tuple[int, int]]
) -> None:
    pipeline = describe(CHAIN.replace("start: latest, ", ""))
    pin_start(pipeline, "c")
    assert starts(pipeline)["c"] == {}


def test_records_before_the_start_are_not_looked_at(
    describe: Describe,
    topic: dict[TopicPartition, tuple[int, int]],
) -> None:
    pipeline = describe(CHAIN)
    asked: list[Positions] = []

    def infer(pipeline: Pipeline, table: str, position: Positions) -> tuple[Column, ...]:
        asked.append(position)
        return ()

    with pytest.raises(NotYet, match="from its start on, its topics hold no JSON object yet"):
        pin(pipeline, lambda _: None, infer)
    assert asked == [{FIRST: Position(10)}]
    assert pinned_columns(pipeline, "a") is None
    replace_file(State(pipeline.storage).schema_file("a"), json.dumps({"id": "bigint"}))
    pin(pipeline, lambda _: None, infer)  # nothing new is fine once something is pinned
