"""Runs again whenever high watermarks move."""

from __future__ import annotations

import time
from collections.abc import Iterator

from tidelog.pipelines.running import prepare, run_once
from tidelog.pipelines.spark_process import SparkProcess, Tell
from tidelog.pipelines.spec import Pipeline
from tidelog.pipelines.summary import TableSummary, lag_of
from tidelog.spark.errors import SourceError


def runs(
    pipeline: Pipeline, spark: SparkProcess, every_s: float, tell: Tell
) -> Iterator[list[TableSummary]]:
    """One run now, then one after each time that records have come; never ends by itself."""
    while True:
        yield run_once(pipeline, spark, tell)
        while not _waiting(pipeline, tell):
            time.sleep(every_s)
        prepare(pipeline, tell)


def _waiting(pipeline: Pipeline, tell: Tell) -> bool:
    try:
        return any(lag_of(pipeline, name) > 0 for name in pipeline.tables)
    except SourceError as error:
        tell(f"waiting for the cluster: {error}")
        return False
