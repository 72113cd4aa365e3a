"""The audit of a whole pipeline, with a Spark of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeAlias

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tidelog.model.nearest import nearest
from tidelog.pipelines.audit.comparing import TableAudit, audit_table
from tidelog.pipelines.description.mistakes import PipelineTrouble, Tell
from tidelog.pipelines.description.spec import Pipeline
from tidelog.pipelines.project.project import CONFIGURATION, write_project
from tidelog.pipelines.project.source_options import check_topics
from tidelog.pipelines.run.backfill import pending_backfill
from tidelog.pipelines.run.running import finish_batches, sole_run
from tidelog.pipelines.run.spark_failures import failure_in
from tidelog.spark.session import spark_session

OpenSpark: TypeAlias = Callable[[str, str | None, Mapping[str, str]], SparkSession]
"""A Spark with this name, master and these settings."""


def audit_pipeline(
    pipeline: Pipeline,
    tables: Collection[str],
    master: str | None,
    tell: Tell,
    open_spark: OpenSpark = spark_session,
) -> list[TableAudit]:
    """Audit these tables, or all; no run is at work meanwhile, and no decision waits."""
    known = [each.name for each in pipeline.stored_tables()]
    for name in tables:
        if name not in known:
            raise PipelineTrouble(f"there is no table {name}; {nearest(name, known)}")
    with sole_run(pipeline):
        finish_batches(pipeline)
        _require_no_backfill(pipeline, tables or known)
        check_topics(pipeline)
        _require_a_run(pipeline, tables or known)
        project = Path(tempfile.mkdtemp(prefix="tidelog-audit-"))
        tell("starting Spark")
        spark = open_spark("tidelog pipelines audit", master, {**CONFIGURATION, **pipeline.spark})
        try:
            write_project(pipeline, project)
            return [audit_table(spark, pipeline, project, name) for name in tables or known]
        except PySparkException as error:
            raise PipelineTrouble(f"the audit failed: {failure_in(str(error)).why}") from error
        finally:
            spark.stop()
            shutil.rmtree(project)


def _require_a_run(pipeline: Pipeline, tables: Collection[str]) -> None:
    """Of a table that no flow was ever started for nothing is proved, although nothing is lost."""
    idle = [name for name in tables if not _has_run(pipeline, name)]
    if not idle:
        return
    others = " ".join(f"--table {name}" for name in tables if name not in idle)
    more = f", or audit the others: {others}" if others else ""
    raise PipelineTrouble(
        f"{' and '.join(idle)} never ran, so nothing can be audited: run the pipeline first{more}"
    )


def _has_run(pipeline: Pipeline, name: str) -> bool:
    state, flows = pipeline.state, pipeline.tables[name].flows
    traces = [state.table(name), *(state.checkpoints(flow) for flow in flows)]
    return any(each.exists() for each in traces)


def _require_no_backfill(pipeline: Pipeline, tables: Collection[str]) -> None:
    """Between a backfill's start and its end nobody expects the rows that it has brought so far."""
    for flows in pending_backfill(pipeline):
        if unfinished := [name for name in flows.backfill if name in tables]:
            names = ", ".join(unfinished)
            raise PipelineTrouble(
                f"a backfill of {names} is not done: run the pipeline, then audit"
            )
