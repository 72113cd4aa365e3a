"""`python -m benchmarks.spark`: Spark's own connector and ours, the same topics, one run.

Each topic has 6 partitions and the same number of bytes, once in 1000 B and once in 100 B records.
Both read every value (its length is summed up) and both write generated rows; they take turns, so
that whatever else the machine does hits both. CPU is that of the JVM and of its Python processes.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from benchmarks.servers import CLOCK_TICKS, ROOT, Server, Tidelog, running
from tidelog.spark.session import spark_session

CONNECTOR = ROOT / ".cache" / "java" / "spark-connector"
PARTITIONS = 6
SIZES = (1000, 100)
FORMATS = {"kafka": "Spark's connector", "tidelog": "tidelog"}


class Measured(NamedTuple):
    """One job: how fast it was, and what it cost."""

    megabytes: float
    seconds: float
    cpu_s: float

    @property
    def speed(self) -> float:
        return self.megabytes / self.seconds

    @property
    def cpu_s_per_gigabyte(self) -> float:
        return self.cpu_s * 1000 / self.megabytes

    def __str__(self) -> str:
        return f"{self.speed:,.0f} MB/s, {self.cpu_s_per_gigabyte:,.1f} s of CPU per GB"


def session() -> SparkSession:
    jars = ",".join(map(str, CONNECTOR.glob("*.jar")))
    spark = spark_session("benchmark", "local[2]", {"spark.jars": jars})
    spark.range(10).selectExpr("sum(id)").collect()
    return spark


def descendants(pid: int) -> Iterator[int]:
    """A process and everything below it."""
    yield pid
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError):  # threads come and go
            for child in (task / "children").read_text().split():
                yield from descendants(int(child))


def cpu_seconds(server: Server) -> float:
    """User and system time of the JVM and its Python processes, ended ones included."""
    others = {os.getpid(), *(server.pid(node_id) for node_id in server.ports)}
    total = 0
    for pid in descendants(os.getpid()):
        if pid not in others:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))
    return total / CLOCK_TICKS


def timed(server: Server, megabytes: float, job: Callable[[], None]) -> Measured:
    cpu, began = cpu_seconds(server), time.monotonic()
    job()
    return Measured(megabytes, time.monotonic() - began, cpu_seconds(server) - cpu)


def reading(spark: SparkSession, kind: str, server: Server, topic: str) -> None:
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", server.bootstrap)
    frame = reader.option("subscribe", topic).load()
    frame.agg(f.sum(f.length("value")), f.max("offset")).collect()


def writing(frame: DataFrame, kind: str, server: Server, topic: str) -> None:
    writer = frame.write.format(kind).option("kafka.bootstrap.servers", server.bootstrap)
    writer.option("topic", topic).mode("append").save()


def rows(spark: SparkSession, megabytes: int, size: int) -> DataFrame:
    count = megabytes * 1_000_000 // size
    text = f.rpad(f.col("id").cast("string"), size, "x")
    return spark.range(0, count, numPartitions=PARTITIONS).select(text.alias("value"))


def create(server: Server, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result()


def measure(
    spark: SparkSession, server: Server, megabytes: int, say: Callable[[str], None]
) -> dict[tuple[str, int, str], Measured]:
    """Every job of both, after a small one of each to warm up."""
    create(server, "warm")
    for kind in FORMATS:
        writing(rows(spark, 10, 1000), kind, server, "warm")
        reading(spark, kind, server, "warm")
    found = {}
    for size in SIZES:
        for kind in FORMATS:
            topic = f"{kind}-{size}"
            create(server, topic)
            frame = rows(spark, megabytes, size)
            job = partial(writing, frame, kind, server, topic)
            found["write", size, kind] = timed(server, megabytes, job)
            say(f"{FORMATS[kind]} wrote {size} B records: {found['write', size, kind]}")
        for kind in FORMATS:
            job = partial(reading, spark, kind, server, f"kafka-{size}")
            found["read", size, kind] = timed(server, megabytes, job)
            say(f"{FORMATS[kind]} read {size} B records: {found['read', size, kind]}")
    return found


def show(found: dict[tuple[str, int, str], Measured]) -> None:
    table = Table(title="Spark local[2], one broker, 6 partitions")
    table.add_column("job")
    for name in FORMATS.values():
        table.add_column(f"{name}, MB/s", justify="right")
        table.add_column("CPU s per GB", justify="right")
    table.add_column("ratio", justify="right")
    for job, size in dict.fromkeys(key[:2] for key in found):
        cells, speeds = [], []
        for kind in FORMATS:
            one = found[job, size, kind]
            speeds.append(one.speed)
            cells += [f"{one.speed:,.0f}", f"{one.cpu_s_per_gigabyte:,.1f}"]
        table.add_row(f"{job} {size} B", *cells, f"{speeds[1] / speeds[0]:.2f}")
    Console().print(table)


def main() -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.spark", description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1000, help="how much of each")
    arguments = parser.parse_args()
    with running(Tidelog(1)) as server:
        spark = session()
        show(measure(spark, server, arguments.megabytes, lambda text: print(text, file=sys.stderr)))
        spark.stop()


if __name__ == "__main__":
    main()
