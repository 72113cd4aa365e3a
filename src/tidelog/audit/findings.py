"""What is wrong among the replicas of a cluster, found by Spark over their segments.

Invariant  Only what lies below the high watermark is judged, and only what all replicas still
           have: above the mark replicas may differ, below a log's start there is nothing.
Invariant  Where compaction has been at work each replica is right in its own way: gaps and
           different batches count only behind the cleaned part.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f

from tidelog.audit.replica_files import LogDirectories, Marks
from tidelog.audit.segment_scan import BatchState
from tidelog.model.ids import TopicPartition

_KEY = ("topic", "partition")
_REPLICA = (*_KEY, "broker", "directory")
_WORDS = {
    str(BatchState.BAD_CRC): "the batch does not match its checksum",
    str(BatchState.UNREADABLE): "no whole batch begins here, the rest of the file is unreadable",
    str(BatchState.BAD_INDEX): "the index entry does not point at the batch of its offset",
}


class Finding(NamedTuple):
    """One thing that is wrong, and where."""

    partition: str
    broker: int
    file: str
    position: int | None
    offset: int
    what: str


class Audited(NamedTuple):
    """What was looked at, and what was found."""

    brokers: int
    partitions: int
    replicas: int
    segments: int
    batches: int
    size_bytes: int
    findings: list[Finding]


class _Judged(NamedTuple):
    """From where to where a partition is judged."""

    topic: str
    partition: int
    common_start: int
    high_watermark: int
    first_uncleaned: int


def audit_replicas(spark: SparkSession, directories: LogDirectories, topics: list[str]) -> Audited:
    """Read every segment once and judge."""
    segments = (
        spark.read.format("tidelog-segments")
        .option("dirs", ",".join(directories.paths))
        .option("topic", ",".join(topics))
        .load()
        .persist()
    )
    try:
        replicas = _replicas(segments)
        judged = _judged(replicas, directories.marks())
        limits = f.broadcast(
            spark.createDataFrame(
                judged,
                "topic string, partition int, commonStart long, highWatermark long, "
                "firstUncleaned long",
            )
        )
        within = segments.join(limits, list(_KEY))
        findings = [
            *_damaged_or_out_of_step(within),
            *_different(within),
            *_behind(replicas, judged),
        ]
        return _audited(replicas, findings)
    finally:
        segments.unpersist()


def _is(*states: BatchState) -> Column:
    return f.col("state").isin([str(each) for each in states])


def _replicas(segments: DataFrame) -> list[Any]:
    """One row per replica; reads every segment, one task for each."""
    whole = _is(BatchState.OK, BatchState.BAD_CRC)
    return (
        segments.groupBy(*_REPLICA)
        .agg(
            f.min(f.when(whole, f.col("baseOffset"))).alias("start"),
            (f.max(f.when(whole, f.col("lastOffset"))) + 1).alias("end"),
            f.count_distinct(f.when(~_is(BatchState.BAD_INDEX), f.col("file"))).alias("segments"),
            f.count_if(whole).alias("batches"),
            f.sum(f.when(whole, f.col("size"))).alias("bytes"),
        )
        .orderBy(*_REPLICA)
        .collect()
    )


def _judged(replicas: Sequence[Any], marks: Mapping[TopicPartition, Marks]) -> list[_Judged]:
    found: dict[TopicPartition, list[Any]] = {}
    for row in replicas:
        found.setdefault(TopicPartition(row.topic, row.partition), []).append(row)
    judged = []
    for partition, rows in found.items():
        # A cluster that never wrote its checkpoint has committed at least what all of them have.
        mark = marks.get(partition, Marks(min(row.end or 0 for row in rows), 0))
        common_start = max(row.start or 0 for row in rows)
        judged.append(_Judged(*partition, common_start, *mark))
    return judged


def _damaged_or_out_of_step(within: DataFrame) -> Iterator[Finding]:
    """Damage, and within one replica epochs or offsets that step back, and gaps."""
    replica = Window.partitionBy(*_REPLICA).orderBy("file", "position")
    whole = _is(BatchState.OK, BatchState.BAD_CRC)
    before = replica.rowsBetween(Window.unboundedPreceding, -1)
    previous_end = f.last(f.when(whole, f.col("lastOffset")), ignorenulls=True).over(before) + 1
    stepped = within.withColumns(
        {
            "previousEnd": previous_end,
            "previousEpoch": f.last(f.when(whole, f.col("leaderEpoch")), ignorenulls=True).over(
                before
            ),
        }
    ).withColumn(
        "offset",
        f.when(f.col("baseOffset") >= 0, f.col("baseOffset")).otherwise(
            f.coalesce("previousEnd", f.lit(0))
        ),
    )
    damaged = ~_is(BatchState.OK) & (f.col("offset") < f.col("highWatermark"))
    out_of_step = (
        whole
        & (f.col("previousEnd") < f.col("highWatermark"))
        & ((f.col("baseOffset") != f.col("previousEnd")) | f.expr("leaderEpoch < previousEpoch"))
    )
    for row in stepped.where(damaged | out_of_step).orderBy(*_REPLICA, "offset").collect():
        where = f"{row.topic}-{row.partition}", row.broker, _path(row), row.position, row.offset
        if row.state in _WORDS and row.offset < row.highWatermark:
            yield Finding(*where, _WORDS[row.state])
        if row.state != BatchState.BAD_INDEX and row.state != BatchState.UNREADABLE:
            for what in _steps(row.asDict()):
                yield Finding(*where, what)


def _steps(row: Mapping[str, Any]) -> Iterator[str]:
    if row["previousEnd"] is None:
        return
    if row["leaderEpoch"] < row["previousEpoch"]:
        yield f"the epoch steps back from {row['previousEpoch']} to {row['leaderEpoch']}"
    if row["baseOffset"] < row["previousEnd"]:
        yield f"the offset steps back, the batch before ends at {row['previousEnd']}"
    elif row["baseOffset"] > row["previousEnd"] >= row["firstUncleaned"]:
        yield f"offsets [{row['previousEnd']}, {row['baseOffset']}) are missing"


def _different(within: DataFrame) -> Iterator[Finding]:
    """Batches at the same offset with different bytes: whoever is outvoted is named."""
    compared = within.where(
        _is(BatchState.OK, BatchState.BAD_CRC)
        & f.expr("lastOffset < highWatermark")
        & f.expr("baseOffset >= greatest(commonStart, firstUncleaned)")
    )
    places = f.collect_list(f.struct("broker", "directory", "file", "position", "hash"))
    split = (
        compared.groupBy(*_KEY, "baseOffset")
        .agg(f.count_distinct("hash").alias("versions"), places.alias("places"))
        .where("versions > 1")
        .orderBy(*_KEY, "baseOffset")
    )
    for row in split.collect():
        votes = Counter(each.hash for each in row.places)
        agreed, most = votes.most_common(1)[0]
        for each in sorted(row.places):
            if most == 1:
                what = "the replicas hold different batches, and no two agree"
            elif each.hash != agreed:
                what = "the batch differs from that of the other replicas"
            else:
                continue
            yield Finding(
                f"{row.topic}-{row.partition}", each.broker, _path(each), each.position,
                row.baseOffset, what,
            )  # fmt: skip


def _behind(replicas: Sequence[Any], judged: Sequence[_Judged]) -> Iterator[Finding]:
    """Replicas that do not have everything that is committed."""
    marks = {(each.topic, each.partition): each.high_watermark for each in judged}
    for row in replicas:
        mark, end = marks[row.topic, row.partition], row.end or 0
        if end < mark:
            yield Finding(
                f"{row.topic}-{row.partition}", row.broker, row.directory, None, end,
                f"the replica is behind: it ends at {end}, the high watermark is {mark}",
            )  # fmt: skip


def _audited(replicas: Sequence[Any], findings: list[Finding]) -> Audited:
    return Audited(
        brokers=len({row.broker for row in replicas}),
        partitions=len({(row.topic, row.partition) for row in replicas}),
        replicas=len(replicas),
        segments=sum(row.segments for row in replicas),
        batches=sum(row.batches for row in replicas),
        size_bytes=sum(row.bytes or 0 for row in replicas),
        findings=findings,
    )


def _path(row: Any) -> str:
    return f"{row.directory}/{row.file}"
