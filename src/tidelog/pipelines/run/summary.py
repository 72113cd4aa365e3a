"""What a run has done for each table."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from tidelog.pipelines.description.spec import Pipeline, TableOutput
from tidelog.pipelines.project.source_options import ends_now, pinned_start
from tidelog.pipelines.run.checkpoints import Checkpoint
from tidelog.pipelines.tables.decisions import Counts
from tidelog.spark.source.offsets import Positions


class TableSummary(NamedTuple):
    """Records of this run, and how many wait. Of a sink that is not ours it is not known what was
    dropped."""

    table: str
    rows_in: int
    rows_out: int | None
    quarantined: int
    dropped: int | None
    lag: int


class Taken(NamedTuple):
    """What flows have brought to a table."""

    read: int
    counts: Counts


def taken(pipeline: Pipeline, name: str, counts: Counts, stood_at: Positions) -> Taken:
    """What was taken since its flow stood there; a sink that is not ours counts nothing."""
    if isinstance(pipeline.tables[name].output, TableOutput):
        return Taken(counts.all, counts)
    earliest, _ = ends_now(pipeline, name)
    return Taken(passed(stood_at, position_of(pipeline, name), earliest), counts)


def summarize(pipeline: Pipeline, name: str, parts: Collection[Taken]) -> TableSummary:
    """The line of one table."""
    read = sum(each.read for each in parts)
    counts = sum((each.counts for each in parts), Counts())
    lag = lag_of(pipeline, name)
    if not isinstance(pipeline.tables[name].output, TableOutput):
        return TableSummary(name, read, None, counts.quarantined, None, lag)
    return TableSummary(name, read, counts.rows, counts.quarantined, counts.dropped, lag)


def lag_of(pipeline: Pipeline, name: str) -> int:
    """Offsets between what the table has and what a reader may see."""
    earliest, latest = ends_now(pipeline, name)
    return behind(position_of(pipeline, name), earliest, latest)


def position_of(pipeline: Pipeline, name: str) -> Positions:
    """Everything below it was taken; of a partition that is missing, nothing."""
    state = pipeline.state
    checkpoint = Checkpoint(state.checkpoints(name), name)
    return {**pinned_start(state, name), **checkpoint.position()}


def behind(position: Positions, earliest: Positions, latest: Positions) -> int:
    """Offsets that wait: of a partition that was never read all, of none those that aged out."""
    return sum(
        max(0, end.offset - max(position.get(each, first).offset, first.offset))
        for each, end in latest.items()
        for first in (earliest[each],)
    )


def passed(stood_at: Positions, stands_at: Positions, earliest: Positions) -> int:
    """Offsets that were read from one position to the next."""
    return sum(
        end.offset - stood_at.get(each, earliest.get(each, end)).offset
        for each, end in stands_at.items()
    )
