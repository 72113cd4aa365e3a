"""`spark.readStream.format("tidelog")`: micro-batches, their limits, progress and failovers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import ConsumerGroupTopicPartitions
from confluent_kafka.admin import AdminClient
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.integration.raw import until
from tests.spark.conftest import MakeTopic, Write

from tidelog.spark.lag import Lag, LagListener, lag
from tidelog.testing.cluster import Cluster


def stream(
    spark: SparkSession, bootstrap: str, topic: str, kind: str = "tidelog", **options: str
) -> DataFrame:
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
    chosen = {"subscribe": topic, "startingOffsets": "earliest", **options}
    return reader.options(**chosen).load()


def run_available(frame: DataFrame, place: Path) -> StreamingQuery:
    """One run of a query that writes to `place`, until it has read what is there now."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(place / "table"))
        .option("checkpointLocation", str(place / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def offsets(progress: Any, name: str) -> dict[str, int]:
    stored = json.loads(getattr(progress.sources[0], name))
    return {index: offset for topic, found in stored.items() if not topic.startswith("@")
            for index, offset in found.items()}  # fmt: skip


def test_batches_keep_to_the_limit_and_a_restart_goes_on(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, write: Write, tmp_path: Path
) -> None:
    topic = make_topic()
    write(topic, [b"%d" % each for each in range(100)])
    limited = {"maxOffsetsPerTrigger": "40", "commitGroup": "lag-tools"}
    query = run_available(stream(spark, bootstrap, topic, **limited), tmp_path)
    table = str(tmp_path / "table")
    assert spark.read.parquet(table).select("partition", "offset").distinct().count() == 100
    sizes = [each.numInputRows for each in query.recentProgress if each.numInputRows]
    assert sum(sizes) == 100
    assert max(sizes) <= 40 + 2

    last = query.recentProgress[-1]
    assert offsets(last, "endOffset") == offsets(last, "latestOffset"), "there is no lag left"
    assert group_offsets(bootstrap, "lag-tools") == sum(offsets(last, "endOffset").values())

    write(topic, [b"more"] * 10)
    run_available(stream(spark, bootstrap, topic, **limited), tmp_path)
    frame = spark.read.parquet(table)
    assert frame.count() == 110
    assert frame.where("value = cast('more' as binary)").count() == 10


def group_offsets(bootstrap: str, group: str) -> int:
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    asked = [ConsumerGroupTopicPartitions(group)]
    found = admin.list_consumer_group_offsets(asked)[group].result()
    return sum(each.offset for each in found.topic_partitions)


def test_the_lag_of_a_query_is_what_the_connector_says_about_its_own(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, write: Write, tmp_path: Path
) -> None:
    topic = make_topic()
    write(topic, [b"x"] * 60, partition=0)
    write(topic, [b"x"] * 20, partition=1)
    told: list[Lag] = []
    listener = LagListener(lambda _, behind: told.append(behind))
    limited = {"maxOffsetsPerTrigger": "40"}
    connector = run_available(
        stream(spark, bootstrap, topic, kind="kafka", **limited), tmp_path / "a"
    )
    spark.streams.addListener(listener)
    try:
        ours = run_available(stream(spark, bootstrap, topic, **limited), tmp_path / "b")
        until(lambda: len(told) == len(ours.recentProgress))
    finally:
        spark.streams.removeListener(listener)
    assert [lag(each).metrics for each in ours.recentProgress] == [
        dict(each.sources[0].metrics) for each in connector.recentProgress
    ]
    assert [dict(each.by_partition) for each in told] == [
        {(topic, 0): 30, (topic, 1): 10},
        {(topic, 0): 0, (topic, 1): 0},
    ]


def test_a_query_goes_on_when_brokers_fail(
    spark: SparkSession,
    bootstrap: str,
    cluster: Cluster,
    make_topic: MakeTopic,
    write: Write,
    tmp_path: Path,
) -> None:
    topic = make_topic(partitions=3)
    frame = stream(spark, bootstrap, topic)
    query = (
        frame.writeStream.format("memory")
        .queryName("survives")
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        for broker in (101, 102):
            write(topic, [b"before"] * 50)
            query.processAllAvailable()
            cluster.kill(broker)
            write(topic, [b"after"] * 50)
            query.processAllAvailable()
            cluster.start(broker)
        assert query.exception() is None
        assert spark.table("survives").select("partition", "offset").distinct().count() == 200
        assert spark.table("survives").count() == 200
    finally:
        query.stop()


def test_a_topic_that_was_made_anew_is_data_loss(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, write: Write, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [b"old"] * 10)
    run_available(stream(spark, bootstrap, topic), tmp_path)
    admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    admin.delete_topics([topic])[topic].result()
    make_topic(partitions=1)
    write(topic, [b"new"] * 3)
    with pytest.raises(PySparkException, match="the query had read up to 10"):
        run_available(stream(spark, bootstrap, topic), tmp_path)


def test_a_first_batch_that_failed_is_repeated_with_its_own_records(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, write: Write, tmp_path: Path
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [b"x"] * 10)
    found: list[list[int]] = []

    def fail(_: DataFrame, __: int) -> None:
        raise RuntimeError("the sink is not there")

    def keep(batch: DataFrame, _: int) -> None:
        found.append(sorted(row.offset for row in batch.select("offset").collect()))

    for sink in (fail, keep):
        query = (
            stream(spark, bootstrap, topic, startingOffsets="-5")
            .writeStream.foreachBatch(sink)
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        if sink is fail:
            with pytest.raises(PySparkException, match="the sink is not there"):
                query.awaitTermination()
            write(topic, [b"x"] * 20)
        else:
            query.awaitTermination()
    assert found == [[5, 6, 7, 8, 9], list(range(10, 30))]
