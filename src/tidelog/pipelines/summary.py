"""What a run has done for each table."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.pipelines.checkpoints import Checkpoint
from tidelog.pipelines.decisions import Counts
from tidelog.pipelines.source_options import ends_now, pinned_start
from tidelog.pipelines.spec import Pipeline
from tidelog.pipelines.state import State
from tidelog.spark.offsets import Positions


class TableSummary(NamedTuple):
    """Records of this run, and how many wait."""

    table: str
    rows_in: int
    rows_out: int
    quarantined: int
    dropped: int
    lag: int


def summarize(pipeline: Pipeline, name: str, counts: Counts) -> TableSummary:
    """The line of one table."""
    return TableSummary(
        table=name,
        rows_in=counts.all,
        rows_out=counts.rows,
        quarantined=counts.quarantined,
        dropped=counts.dropped,
        lag=lag_of(pipeline, name),
    )


def lag_of(pipeline: Pipeline, name: str) -> int:
    """Offsets between what the table has and what a reader may see."""
    state = State(pipeline.storage)
    checkpoint = Checkpoint(state.checkpoints(name), name)
    earliest, latest = ends_now(pipeline, name)
    return behind({**pinned_start(state, name), **checkpoint.position()}, earliest, latest)


def behind(position: Positions, earliest: Positions, latest: Positions) -> int:
    """Partitions that were never read count from their first record."""
    return sum(
        max(0, end.offset - position.get(each, earliest[each]).offset)
        for each, end in latest.items()
    )
