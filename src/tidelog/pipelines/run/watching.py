"""Runs again whenever high watermarks move.

Invariant  A cluster that is away, a topic without records and a run that failed for reasons of the
           moment are waited out. The end of Spark, and what stays wrong until somebody changes
           description, table or topic, are the end.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from tidelog.pipelines.description.mistakes import NotYet, Tell
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.running import ProjectRunner, prepare, run_once
from tidelog.pipelines.run.summary import TableSummary, lag_of
from tidelog.spark.errors import SourceError

_PASSING: Final = (SourceError, NotYet)


class Steps(NamedTuple):
    """What a watch does again and again."""

    prepare: Callable[[Pipeline, Tell], None] = prepare
    run_once: Callable[[Pipeline, ProjectRunner, Tell], list[TableSummary]] = run_once
    lag_of: Callable[[Pipeline, str], int] = lag_of


_STEPS: Final = Steps()


def runs(
    pipeline: Pipeline, spark: ProjectRunner, every_s: float, tell: Tell, steps: Steps = _STEPS
) -> Iterator[list[TableSummary]]:
    """One run now, then one after each time that records have come; never ends by itself."""
    while True:
        try:
            found = steps.run_once(pipeline, spark, tell)
        except _PASSING as error:
            tell(f"waiting: {error}")
            time.sleep(every_s)
        else:
            yield found
            while not _waiting(pipeline, tell, steps):
                time.sleep(every_s)
        wait_until_prepared(pipeline, every_s, tell, steps)


def wait_until_prepared(
    pipeline: Pipeline, every_s: float, tell: Tell, steps: Steps = _STEPS
) -> None:
    """Prepare a run as soon as the cluster and its topics allow it."""
    while True:
        try:
            return steps.prepare(pipeline, tell)
        except _PASSING as error:
            tell(f"waiting: {error}")
            time.sleep(every_s)


def _waiting(pipeline: Pipeline, tell: Tell, steps: Steps) -> bool:
    try:
        return any(steps.lag_of(pipeline, name) > 0 for name in pipeline.tables)
    except _PASSING as error:
        tell(f"waiting: {error}")
        return False
