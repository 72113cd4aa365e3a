"""Runs, backfills and refreshes that die at any step: each record comes to each flow once.

What our code keeps on disk is real. The cluster is a number per partition, and a flow of Spark is a
loop that plans a batch, hands it to a sink that takes each batch of a query once, and commits it.
"""

from __future__ import annotations

import json
import os
import shutil
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.pipelines.conftest import Describe

from tidelog.model.ids import TopicPartition
from tidelog.pipelines.description.mistakes import PipelineTrouble
from tidelog.pipelines.description.spec import Pipeline, Table
from tidelog.pipelines.project import pinning
from tidelog.pipelines.project.pinning import pin_starts
from tidelog.pipelines.project.source_options import pinned_end, pinned_start, start_json
from tidelog.pipelines.run import backfill, data_loss, refresh
from tidelog.pipelines.run.backfill import (
    drop_gone,
    pending_backfill,
    request_backfill,
    settle_backfill,
)
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.run.data_loss import check_losses
from tidelog.pipelines.run.refresh import finish_refreshes, request_refresh
from tidelog.pipelines.tables.durable import replace_file
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
unlink, rmtree = Path.unlink, shutil.rmtree


class Killed(BaseException):
    """The run is gone, between two steps."""


class World:
    """The cluster, what the sinks have taken, and how many steps the run that is alive has left."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.latest = {FIRST: random.randrange(4, 20)}
        self.rows: dict[str, Counter[tuple[TopicPartition, int]]] = {}
        self.steps_left: int | None = None
        self._taken: set[tuple[str, str, int]] = set()

    def step(self) -> None:
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left < 0:
                raise Killed

    def grow(self) -> None:
        self.latest = {each: end + self.random.randrange(4) for each, end in self.latest.items()}
        if LATE not in self.latest and self.random.random() < 0.4:
            self.latest[LATE] = self.random.randrange(5)

    def take(self, flow: str, query: str, batch: int, start: Positions, end: Positions) -> None:
        """As our sinks do: each batch of a query once."""
        if (flow, query, batch) not in self._taken:
            self._taken.add((flow, query, batch))
            rows = self.rows.setdefault(flow, Counter())
            for each, last in end.items():
                first = start[each].offset if each in start else 0
                rows.update((each, offset) for offset in range(first, last.offset))

    # What stands between our code and the cluster or the disk

    def ends_now(self, pipeline: Pipeline, table: str) -> tuple[Positions, Positions]:
        known = pinned_end(pipeline.state, table) if pipeline.backfill else self.latest
        return {each: Position(0) for each in known}, self._ends(known)

    def _ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Position]:
        return {each: Position(self.latest[each]) for each in partitions}

    def start_of(self, pipeline: Pipeline, table: str) -> Positions:
        start = pipeline.source(table).start
        if start in ("earliest", "latest"):
            ends = self._ends(self.latest)
            return ends if start == "latest" else {each: Position(0) for each in ends}
        return {each: Position(max(0, end + int(start))) for each, end in self.latest.items()}

    def replace_file(self, path: Path, text: str) -> None:
        self.step()
        replace_file(path, text)
        self.step()

    def unlink(self, path: Path, *, missing_ok: bool = False) -> None:
        self.step()
        unlink(path, missing_ok=missing_ok)

    def rmtree(self, path: Path) -> None:
        """In any order, which is the file system's."""
        files = [each for each in Path(path).rglob("*") if each.is_file()]
        for each in self.random.sample(files, len(files)):
            self.step()
            os.unlink(each)
        rmtree(path)


@pytest.fixture
def world(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> World:
    found = World(Random(request.param))
    for module in (backfill, data_loss, pinning):
        monkeypatch.setattr(module, "ends_now", found.ends_now)
    for module in (backfill, pinning, refresh):
        monkeypatch.setattr(module, "start_of", found.start_of)
        monkeypatch.setattr(module, "replace_file", found.replace_file)
    monkeypatch.setattr(Path, "unlink", lambda path, **more: found.unlink(path, **more))
    monkeypatch.setattr(shutil, "rmtree", found.rmtree)
    return found


class Flow:
    """One flow, as Spark runs it with the trigger AvailableNow."""

    def __init__(self, world: World, pipeline: Pipeline, table: Table, name: str) -> None:
        self._world, self._name = world, name
        self._checkpoint = Checkpoint(pipeline.state.checkpoints(name), name)
        self._start = pinned_start(pipeline.state, table.name)
        _, latest = world.ends_now(pipeline, table.name)
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
        self._world.take(self._name, self._query(), batch, start, end)
        self._world.step()
        self._write("commits", batch, "v1")
        return True

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


def run(
    world: World,
    pipeline: Pipeline,
    *,
    anew: Collection[str] = (),
    backfilled: Collection[str] = (),
    start: str | None = None,
) -> None:
    """A run from its command to its end, in the order of `prepare` and `run_once`."""
    request_refresh(pipeline, anew, start)
    for marker in pipeline.state.refresh_marker("any").parent.glob("[a-z]*"):
        world.rows.pop(marker.name, None)
    finish_refreshes(pipeline)
    try:
        request_backfill(pipeline, backfilled, start, print)
    except PipelineTrouble as refused:
        assert "is not done: run without --backfill first" in str(refused)
    pin_starts(pipeline)
    for each in (pipeline, *pending_backfill(pipeline)):
        check_losses(each, print)
    drop_gone(pipeline)
    for each in (pipeline, *pending_backfill(pipeline)):
        for table in each.filled:
            for name in table.flows:
                Flow(world, each, table, name).run()
        if each.backfill:
            settle_backfill(each, print)


@pytest.mark.parametrize("world", range(80), indirect=True)
def test_every_record_comes_to_every_flow_once_whenever_runs_die(
    world: World, describe: Describe
) -> None:
    pipeline = describe(TABLES)
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
            assert world.rows[flow] == Counter(
                (each, offset)
                for each, end in world.latest.items()
                for offset in range(start[each].offset if each in start else 0, end)
            )
