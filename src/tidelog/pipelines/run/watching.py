"""Runs again whenever high watermarks move.

Invariant  A cluster that is away, a topic without records and a run that failed for reasons of the
           moment are waited out. The end of Spark, and what stays wrong until somebody changes
           description, table or topic, are the end.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

from tidelog.pipelines.description.mistakes import NotYet
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.run.running import prepare, run_once
from tidelog.pipelines.run.spark_process import SparkProcess, Tell
from tidelog.pipelines.run.summary import TableSummary, lag_of
from tidelog.spark.errors import SourceError

_PASSING: Final = (SourceError, NotYet)


def runs(
    pipeline: Pipeline, spark: SparkProcess, every_s: float, tell: Tell
) -> Iterator[list[TableSummary]]:
    """One run now, then one after each time that records have come; never ends by itself."""
    while True:
        try:
            found = run_once(pipeline, spark, tell)
        except _PASSING as error:
            tell(f"waiting: {error}")
            time.sleep(every_s)
        else:
            yield found
            while not _waiting(pipeline, tell):
                time.sleep(every_s)
        wait_until_prepared(pipeline, every_s, tell)


def wait_until_prepared(pipeline: Pipeline, every_s: float, tell: Tell) -> None:
    """Prepare a run as soon as the cluster and its topics allow it."""
    while True:
        try:
            return prepare(pipeline, tell)
        except _PASSING as error:
            tell(f"waiting: {error}")
            time.sleep(every_s)


def _waiting(pipeline: Pipeline, tell: Tell) -> bool:
    try:
        return any(lag_of(pipeline, name) > 0 for name in pipeline.tables)
    except _PASSING as error:
        tell(f"waiting: {error}")
        return False
