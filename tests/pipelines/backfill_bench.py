"""Tables that have begun, and a cluster that a test moves, for backfills."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.pipelines.conftest import Describe
from tests.pipelines.memory_topics import MemoryTopics

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.backfill import request_backfill
from tidelog.pipelines.run.state import State
from tidelog.pipelines.tables.durable import replace_file
from tidelog.spark.options import ReadOptions
from tidelog.spark.source.offsets import Position, Positions
from tidelog.spark.source.topic_offsets import TopicOffsets

THEN = "2026-01-31T08:00Z"
"""A moment; a test says where the partitions were then."""

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

    def backfill(self, pipeline: Pipeline, *tables: str, start: str = THEN) -> None:
        request_backfill(pipeline, tables, start, self.told.append)

    def topics(self, _: ReadOptions) -> TopicOffsets:
        return MemoryTopics(
            {"o": len(self.latest.keys() | self.earliest.keys()), "p": 1},
            self.earliest,
            self.latest,
            self.start,
        )


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def describe(describe: Describe, asked: Asked) -> Describe:
    """The pipeline that a text describes, in that cluster."""
    return lambda text: replace(describe(text), topics=asked.topics)


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
