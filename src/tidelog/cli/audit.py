"""`tidelog audit`: compare what the brokers have on their disks."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tidelog.cli.exits import ExitCode, answering, refuse
from tidelog.cli.names import no_such
from tidelog.cli.options import AsJson, DataDirectory, cluster_directory
from tidelog.cli.output import print_json, print_table, say

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

app = typer.Typer(help="Compare what the brokers have on their disks.", no_args_is_help=True)

_PROGRESS_S = 1.0


@app.command()
def replicas(
    data: DataDirectory = None,
    dirs: Annotated[
        str | None,
        typer.Option(
            metavar="D1,D2,...",
            help="The log directories themselves, of Tidelog or of Apache Kafka, with commas.",
        ),
    ] = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only this topic; may be given again.")
    ] = None,
    master: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Where Spark runs, for example spark://host:port. Default: here, on all cores.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare all replicas of all partitions, batch by batch, with Spark.

    Looks below the high watermark for batches that differ between replicas, bad checksums, epochs
    or offsets that step back, gaps, replicas that are behind and index entries that point wrong.
    No broker is asked, so the cluster may be up or down. The exit code is 1 if anything is found.
    """
    if data is not None and dirs is not None:
        raise typer.BadParameter("--data and --dirs contradict each other")
    with answering():
        _require_spark()
        from tidelog.audit.findings import audit_replicas
        from tidelog.audit.replica_files import LogDirectories
        from tidelog.spark.session import spark_session

        paths = _node_directories(data) if dirs is None else dirs.split(",")
        directories = LogDirectories(paths)
        there = directories.topics()
        for name in topic or ():
            if there and name not in there:  # else it is said that these are no log directories
                refuse(no_such("topic", name, there))
        say("starting Spark")
        spark = spark_session("tidelog audit", master)
        try:
            with _progress(spark):
                found = audit_replicas(spark, directories, topic or [])
        finally:
            spark.stop()
        for each in found.findings if as_json else ():
            print_json(each._asdict())
        if found.findings and not as_json:
            print_table(
                ["partition", "broker", "file", "position", "offset", "finding"], found.findings
            )
        say(
            f"{found.brokers} brokers, {found.partitions} partitions, {found.replicas} replicas, "
            f"{found.segments} segments, {found.batches} batches, {found.size_bytes / 1e6:.1f} MB: "
            f"{len(found.findings) or 'no'} finding{'' if len(found.findings) == 1 else 's'}"
        )
        if found.findings:
            raise typer.Exit(ExitCode.REFUSED)


def _node_directories(data: Path | None) -> list[str]:
    from tidelog.local.local_cluster import LocalCluster

    cluster = LocalCluster.open(cluster_directory(data))
    brokers = [each for each in cluster.descriptions.values() if "broker" in each.roles]
    return [str(cluster.node(each.node_id).data) for each in brokers]


def _require_spark() -> None:
    try:
        import pyspark  # noqa: F401
    except ModuleNotFoundError:
        refuse("the audit runs on Spark, which is not installed: pip install 'tidelog[spark]'")


@contextmanager
def _progress(spark: SparkSession) -> Iterator[None]:
    """Say how far it is, whenever that has changed: segments first, then the comparison."""
    done = threading.Event()
    tracker = spark.sparkContext.statusTracker()

    def watch() -> None:
        said = ""
        while not done.wait(_PROGRESS_S):
            stages = [tracker.getStageInfo(each) for each in tracker.getActiveStageIds()]
            reading = [each for each in stages if each is not None and each.stageId == 0]
            if reading:
                done_yet = f"{reading[0].numCompletedTasks} of {reading[0].numTasks}"
                now = f"reading segments: {done_yet} tasks are done"
            else:
                now = "comparing replicas" if said else ""
            if now != said:
                say(now)
            said = now

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
