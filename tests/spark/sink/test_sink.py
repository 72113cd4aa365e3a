"""`df.write` and `df.writeStream` to topics, read back by Spark's own connector."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.conftest import MakeTopic, Write


def read(spark: SparkSession, bootstrap: str, topic: str, **options: str) -> DataFrame:
    """What a consumer sees that reads committed records only."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    committed = {"kafka.isolation.level": "read_committed", "subscribe": topic}
    return reader.options(**committed, **options).load()


def test_a_batch_writes_key_value_headers_topic_and_partition(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    frame = spark.sql(
        f"""select cast(id as string) as key, cast(id * 2 as string) as value,
                   array(named_struct('key', 'h', 'value', cast('x' as binary))) as headers,
                   '{topic}' as topic, cast(id % 2 as int) as partition from range(10)"""
    )
    writer = frame.write.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    writer.mode("append").save()
    found = read(spark, bootstrap, topic, includeHeaders="true").orderBy("partition", "key")
    rows = found.collect()
    assert [int(row.key) for row in rows] == [0, 2, 4, 6, 8, 1, 3, 5, 7, 9]
    assert all(int(row.value) == 2 * int(row.key) for row in rows)
    assert rows[0].headers == [Row(key="h", value=b"x")]


def test_the_connector_writes_and_streams_too(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    source, target = make_topic(), make_topic("connector-target")
    frame = spark.range(100).selectExpr("cast(id as string) as key", "cast(id as string) as value")
    options = {"kafka.bootstrap.servers": bootstrap}
    frame.write.format("kafka").options(**options, topic=source).save()
    stream = spark.readStream.format("kafka").options(
        **options, subscribe=source, startingOffsets="earliest"
    )
    query = (
        stream.load()
        .writeStream.format("kafka")
        .options(**options, topic=target, checkpointLocation=str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    assert read(spark, bootstrap, target).select("value").distinct().count() == 100


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("cast(id as string) as value, id as price", "a topic has no column price"),
        ("id as value", "value must be binary or string, not bigint"),
        ("cast(id as string) as key", "there is no column value"),
    ],
)
def test_rows_that_cannot_be_records_are_refused_by_column(
    spark: SparkSession, bootstrap: str, columns: str, message: str
) -> None:
    writer = spark.range(3).selectExpr(*columns.split(", ")).write.format("tidelog")
    options = {"kafka.bootstrap.servers": bootstrap, "topic": "any"}
    with pytest.raises(PySparkException) as caught:
        writer.options(**options).mode("append").save()
    assert message in str(caught.value)


def test_a_record_that_is_refused_is_named(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(max_message_bytes="1000")
    frame = spark.sql("select 'big one' as key, repeat('x', 5000) as value")
    options = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    with pytest.raises(PySparkException, match=r"with key b'big one', 5007 bytes"):
        frame.write.format("tidelog").options(**options).mode("append").save()


@pytest.mark.parametrize("delivery", ["exactly-once", "at-least-once"])
def test_a_stream_is_delivered(
    spark: SparkSession,
    bootstrap: str,
    make_topic: MakeTopic,
    write: Write,
    tmp_path: Path,
    delivery: str,
) -> None:
    source, target = make_topic(), make_topic(f"target-{delivery}")
    options = {"kafka.bootstrap.servers": bootstrap}
    sizes = [100, 20]
    for round_, size in enumerate(sizes):
        write(source, [b"%d/%d" % (round_, each) for each in range(size)])
        frame = spark.readStream.format("tidelog").options(
            **options, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="60"
        )
        query = (
            frame.load()
            .select("key", "value")
            .writeStream.format("tidelog")
            .options(**options, topic=target, delivery=delivery, checkpointLocation=str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
    values = [row.value for row in read(spark, bootstrap, target).collect()]
    assert sorted(values) == sorted(b"%d/%d" % (a, b) for a in range(2) for b in range(sizes[a]))
