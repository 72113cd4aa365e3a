"""`spark.read.format("tidelog")` beside Spark's own connector: same options, same rows."""

from __future__ import annotations

import json

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from tests.spark.conftest import MakeTopic, Write, create_topic, write_records


def load(spark: SparkSession, kind: str, bootstrap: str, **options: str) -> DataFrame:
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap)
    return reader.options(**options).load()


def rows(frame: DataFrame) -> list[Row]:
    return sorted(frame.collect(), key=lambda row: (row.topic, row.partition, row.offset))


@pytest.fixture(scope="module")
def orders(bootstrap: str) -> str:
    name = create_topic(bootstrap, "orders", 3, 3)
    for partition in range(3):
        write_records(bootstrap, name, [b"v%d" % each for each in range(50)], partition=partition)
    write_records(bootstrap, name, [None], key=b"gone", headers=[("a", b"1"), ("b", None)])
    return name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"includeHeaders": "true"},
        {"startingOffsets": '{"orders":{"0":5,"1":-2,"2":3}}'},
        {"endingOffsets": '{"orders":{"0":5,"1":-1,"2":3}}', "minPartitions": "7"},
        {"startingTimestamp": "1000", "maxRecordsPerPartition": "20"},
        {"startingTimestamp": "99999999999999", "startingOffsetsByTimestampStrategy": "latest"},
    ],
    ids=["defaults", "headers", "offsets", "ends", "timestamp", "too young"],
)
def test_rows_and_schema_are_those_of_the_connector(
    spark: SparkSession, bootstrap: str, orders: str, options: dict[str, str]
) -> None:
    ours = load(spark, "tidelog", bootstrap, subscribe=orders, **options)
    theirs = load(spark, "kafka", bootstrap, subscribe=orders, **options)
    assert ours.schema == theirs.schema
    assert rows(ours) == rows(theirs)


@pytest.mark.parametrize(
    "options",
    [
        {"startingTimestamp": "3000", "endingTimestamp": "6000"},
        {"startingOffsetsByTimestamp": '{"dated":{"0":2000,"1":7000}}'},
        {"endingOffsetsByTimestamp": '{"dated":{"0":2000,"1":99999999999999}}'},
        {
            "startingOffsetsByTimestamp": '{"dated":{"0":99999,"1":5500}}',
            "startingOffsetsByTimestampStrategy": "latest",
        },
    ],
    ids=["between moments", "starts", "ends", "latest when too young"],
)
def test_moments_mean_what_they_mean_to_the_connector(
    spark: SparkSession, bootstrap: str, dated: str, options: dict[str, str]
) -> None:
    ours = rows(load(spark, "tidelog", bootstrap, subscribe=dated, **options))
    assert ours == rows(load(spark, "kafka", bootstrap, subscribe=dated, **options))
    assert 0 < len(ours) < 20


@pytest.fixture(scope="module")
def dated(bootstrap: str) -> str:
    """Two partitions, each with a record a second."""
    name = create_topic(bootstrap, "dated", 2, 1, retention_ms="-1")
    for second in range(1, 11):
        for partition in range(2):
            write_records(bootstrap, name, [b"x"], partition=partition, timestamp=second * 1000)
    return name


def test_topics_are_chosen_by_name_pattern_or_partition(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    whole = rows(load(spark, "tidelog", bootstrap, subscribe=orders))
    assert len(whole) == 151
    assert rows(load(spark, "tidelog", bootstrap, subscribePattern="ord.*s")) == whole
    one = load(spark, "tidelog", bootstrap, assign=json.dumps({orders: [1]}))
    assert rows(one) == [row for row in whole if row.partition == 1]


def test_relative_starts_count_from_the_end(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    whole = rows(load(spark, "tidelog", bootstrap, subscribe=orders))
    last = rows(load(spark, "tidelog", bootstrap, subscribe=orders, startingOffsets="-2"))
    for partition in range(3):
        expected = [row for row in whole if row.partition == partition][-2:]
        assert [row for row in last if row.partition == partition] == expected
    frame = load(spark, "tidelog", bootstrap, subscribe=orders, startingOffsets="-1 day")
    assert frame.count() == len(whole)


def test_columns_and_the_leader_epoch_can_be_asked_for(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    frame = load(spark, "tidelog", bootstrap, subscribe=orders, columns="leaderEpoch,offset,value")
    assert frame.columns == ["leaderEpoch", "offset", "value"]
    assert {row.leaderEpoch for row in frame.collect()} == {0}


def test_one_large_partition_is_read_by_several_tasks(
    spark: SparkSession, bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1)
    write(topic, [b"x"] * 1000)
    frame = load(spark, "tidelog", bootstrap, subscribe=topic, minPartitions="4")
    assert frame.rdd.getNumPartitions() == 4
    assert [row.offset for row in rows(frame)] == list(range(1000))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"subscribe": "nowhere"}, "there is no topic nowhere; create it first"),
        ({"subscribe": "orders", "fetchSize": "1"}, "there is no option fetchsize"),
        ({"subscribe": "orders", "kafka.made.up": "1"}, "No such configuration property"),
        (
            {"subscribe": "orders", "startingOffsets": '{"orders":{"0":900,"1":0,"2":0}}',
             "endingOffsets": '{"orders":{"0":950,"1":-1,"2":-1}}'},
            "Offsets out of range",
        ),
        ({"subscribe": "orders", "startingTimestamp": "99999999999999"}, "has no record at or"),
        ({"subscribe": "orders", "endingOffsets": '{"orders":{"0":1}}'}, "name every partition"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_said_in_words(
    spark: SparkSession, bootstrap: str, orders: str, options: dict[str, str], message: str
) -> None:
    with pytest.raises(PySparkException) as caught:
        load(spark, "tidelog", bootstrap, **options).collect()
    assert message in str(caught.value)


def test_a_schema_that_does_not_fit_is_refused(
    spark: SparkSession, bootstrap: str, orders: str
) -> None:
    reader = spark.read.format("tidelog").option("kafka.bootstrap.servers", bootstrap)
    frame = reader.option("subscribe", orders).schema("value string")
    with pytest.raises(PySparkException, match="value is binary, not string"):
        frame.load().collect()


def test_a_cluster_that_is_not_there_is_said_to_be_so(spark: SparkSession) -> None:
    options = {"subscribe": "orders", "kafka.default.api.timeout.ms": "100"}
    with pytest.raises(PySparkException, match=r"no broker answers at 127\.0\.0\.1:1:"):
        load(spark, "tidelog", "127.0.0.1:1", **options).collect()
