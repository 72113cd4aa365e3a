"""Runs, backfills and refreshes that die at any step: each record comes to each flow once.

What our code keeps on disk is real, and so is the order in which it does things. The cluster is a
number per partition, and a flow of Spark is a loop that plans a batch, hands it to a sink that
takes each batch of a query once, and commits it. A run dies before any change to the file system:
Python tells of each before it is made.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.pipelines.conftest import Describe
from tests.pipelines.dying import Killed, hearing

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Pipeline, Table
from tidelog.pipelines.project.source_options import pinned_end, pinned_start, start_json
from tidelog.pipelines.run.backfill import pending_backfill
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.running import prepare, run_once
from tidelog.spark.source.offsets import Position, Positions

FIRST, LATE = TopicPartition("o", 0), TopicPartition("o", 1)
TABLES = """
name: x
tables:
  b: {from: a, to_topic: p}
  a: {topics: o, start: latest}
  c: {topics: o, start: -3}
"""
COMMANDS: list[dict[str, Any]] = [
    {},
    {"backfilled": ["a"], "start": "earliest"},
    {"backfilled": ["a"], "start": "-9"},
    {"backfilled": ["c", "a"], "start": "-15"},
    {"backfilled": ["c"], "start": "earliest"},
    {"anew": ["a"]},
    {"anew": ["c"], "start": "-5"},
]
BATCH = 3
CHANGES = ("os.rename", "os.remove", "os.rmdir", "os.link")


class World:
    """The cluster, and how many steps the run that is alive has left."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.ends = {FIRST: random.randrange(4, 20)}
        self.steps_left: int | None = None

    def step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Killed

    def grow(self) -> None:
        self.ends = {each: end + self.random.randrange(4) for each, end in self.ends.items()}
        if LATE not in self.ends and self.random.random() < 0.4:
            self.ends[LATE] = self.random.randrange(5)

    def about_to(self, event: str, arguments: tuple[Any, ...]) -> None:
        """A change to the file system is a step."""
        if self.steps_left is None:
            return
        if event == "shutil.rmtree":
            self._remove_some(Path(arguments[0]))
        elif event in CHANGES:
            self.step()

    def _remove_some(self, directory: Path) -> None:
        """Files of a directory go in any order, which is the file system's."""
        files = [each for each in directory.rglob("*") if each.is_file()]
        for each in self.random.sample(files, len(files) // 2):
            os.unlink(each)

    # What a pipeline asks of its cluster

    def partition_counts(self) -> dict[str, int]:
        return {"o": len(self.ends), "p": 1}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: Position(0) for each in partitions}

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: Position(self.ends[each]) for each in partitions}

    def at(self, moments: Mapping[TopicPartition, int]) -> Positions:
        raise AssertionError("nobody asks for a moment here")


@pytest.fixture
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    found = World(Random(request.param))
    with hearing(found.about_to):
        yield found


class Flow:
    """One flow, as Spark runs it with the trigger AvailableNow."""

    def __init__(self, world: World, pipeline: Pipeline, table: Table, name: str) -> None:
        self._world, self._name = world, name
        self._rows = pipeline.state.root / "taken" / name
        if name in (each.name for each in pipeline.stored_tables()):
            self._rows = pipeline.state.table(name)
        self._checkpoint = Checkpoint(pipeline.state.checkpoints(name), name)
        self._start = pinned_start(pipeline.state, table.name)
        latest = world.latest(world.ends)
        self._ends = pinned_end(pipeline.state, table.name) if pipeline.backfill else latest

    def run(self) -> None:
        while self._next_batch():
            pass

    def _next_batch(self) -> bool:
        done = self._checkpoint.committed()
        planned = self._checkpoint.batches()
        start = self._checkpoint.position() or self._start
        start = {each: start.get(each, Position(0)) for each in {**self._ends, **start}}
        if planned and planned[-1] not in done:
            batch, end = planned[-1], self._checkpoint.end_of(planned[-1])
        else:
            batch = done[-1] + 1 if done else 0
            end = {each: self._after(each, at) for each, at in start.items()}
            if done and end == start:
                return False
            self._write("offsets", batch, f"v1\n{{}}\n{start_json(end)}")
        self._take(f"{self._query()}-{batch}", start, end)
        self._world.step()
        self._write("commits", batch, "v1")
        return True

    def _take(self, batch: str, start: Positions, end: Positions) -> None:
        """As our sinks do: each batch of a query once."""
        path = self._rows / batch
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            rows = [
                (*each, offset)
                for each, last in end.items()
                for offset in range(start[each].offset if each in start else 0, last.offset)
            ]
            path.write_text(json.dumps(rows))

    def _after(self, partition: TopicPartition, at: Position) -> Position:
        last = self._ends.get(partition, at)
        return max(at, min(last, Position(at.offset + BATCH)))

    def _query(self) -> str:
        """Its id lives and dies with the checkpoint."""
        path = self._checkpoint.sink / self._name / "0" / "metadata"
        if not path.exists():
            path.write_text(json.dumps(self._world.random.random()))
        return path.read_text()

    def _write(self, kind: str, batch: int, text: str) -> None:
        path = self._checkpoint.sink / self._name / "0" / kind / str(batch)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._world.step()


class Spark:
    """Runs the flows of a project, as the process does that holds Spark."""

    def __init__(self, world: World, pipeline: Pipeline) -> None:
        self._world, self._pipeline = world, pipeline

    def run(self, project: Path) -> None:
        for each in (self._pipeline, *pending_backfill(self._pipeline)):
            if each.state.project == project:
                for table in each.filled:
                    for name in table.flows:
                        Flow(self._world, each, table, name).run()


def run(
    world: World,
    pipeline: Pipeline,
    *,
    anew: Collection[str] = (),
    backfilled: Collection[str] = (),
    start: str | None = None,
) -> None:
    """A run from its command to its end."""
    try:
        prepare(pipeline, print, anew, start, backfilled)
    except PipelineTrouble as refused:
        assert "is not done: run without --backfill first" in str(refused)
        return
    run_once(pipeline, Spark(world, pipeline), print)


def taken(pipeline: Pipeline, flow: str) -> Counter[tuple[TopicPartition, int]]:
    """What a sink has."""
    places = (pipeline.state.table(flow), pipeline.state.root / "taken" / flow)
    return Counter(
        (TopicPartition(topic, partition), offset)
        for place in places
        for batch in place.glob("*-*")
        for topic, partition, offset in json.loads(batch.read_text())
    )


@pytest.mark.parametrize("world", range(80), indirect=True)
def test_every_record_comes_to_every_flow_once_whenever_runs_die(
    world: World, describe: Describe
) -> None:
    pipeline = replace(describe(TABLES), topics=lambda _: world)
    for _ in range(world.random.randrange(3, 9)):
        world.grow()
        world.steps_left = world.random.randrange(70)
        try:
            run(world, pipeline, **world.random.choice(COMMANDS))
        except Killed:
            continue
    world.steps_left = None
    run(world, pipeline)
    assert pending_backfill(pipeline) == []
    for table in pipeline.tables.values():
        start = pinned_start(pipeline.state, table.name)
        for flow in table.flows:
            assert taken(pipeline, flow) == Counter(
                (each, offset)
                for each, end in world.ends.items()
                for offset in range(start[each].offset if each in start else 0, end)
            )
