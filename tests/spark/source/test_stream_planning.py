"""What a stream plans on the driver: limits, waits, new partitions, targets, losses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import TopicPartition as ClientPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from pyspark.sql.streaming.datasource import ReadMaxRows, ReadMinRows
from tests.integration.raw import until
from tests.spark.conftest import MakeTopic, Write

from tidelog.spark.errors import DataLoss
from tidelog.spark.options import stream_options
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.schema import read_schema
from tidelog.spark.source.stream_reader import StreamReader
from tidelog.testing.cluster import Cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})


def reader(bootstrap: str, **options: str) -> StreamReader:
    chosen = {"startingOffsets": "earliest", **options}
    given = stream_options({"kafka.bootstrap.servers": bootstrap, **chosen})
    return StreamReader(given, read_schema(given))


def latest(stream: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return {topic: found for topic, found in
            stream.latestOffset(start, stream.getDefaultReadLimit()).items()
            if not topic.startswith("@")}  # fmt: skip


def test_too_few_records_are_waited_for(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    options = {"subscribe": topic, "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1 hour"}
    stream = reader(bootstrap, **options)
    assert stream.getDefaultReadLimit() == ReadMinRows(10)
    start = stream.initialOffset()
    write(topic, [b"x"] * 9)
    assert latest(stream, start) == {topic: {"0": 0}}
    write(topic, [b"x"])
    assert latest(stream, start) == {topic: {"0": 10}}


def test_too_few_records_are_not_waited_for_longer_than_the_delay(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"x"])
    options = {"minOffsetsPerTrigger": "10", "maxTriggerDelay": "200ms"}
    stream = reader(bootstrap, subscribe=topic, **options)
    start = stream.initialOffset()
    until(lambda: latest(stream, start) == {topic: {"0": 1}})


def test_between_least_and_most_the_most_is_the_limit(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    options = {"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "7"}
    stream = reader(bootstrap, subscribe=topic, **options)
    assert stream.getDefaultReadLimit() == ReadMaxRows(7)
    start = stream.initialOffset()
    write(topic, [b"x"] * 4)
    assert latest(stream, start) == {topic: {"0": 0}}
    write(topic, [b"x"] * 16)
    assert latest(stream, start) == {topic: {"0": 7}}


def test_what_is_available_now_does_not_grow(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"x"] * 3)
    stream = reader(bootstrap, subscribe=topic)
    stream.prepareForTriggerAvailableNow()
    write(topic, [b"x"] * 3)
    assert latest(stream, stream.initialOffset()) == {topic: {"0": 3}}
    reported = stream.reportLatestOffset()
    assert reported is not None
    assert reported[topic] == {"0": 6}, "the lag in the progress is against what is there"


def test_new_partitions_and_topics_are_read_from_their_beginning(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    stream = reader(bootstrap, subscribePattern=f"({topic}.*|__.*)", startingOffsets="latest")
    start = stream.initialOffset()
    admin.create_partitions([NewPartitions(topic, 2)])[topic].result()
    other = make_topic(f"{topic}-other", partitions=1, replicas=1)
    write(topic, [b"x"], partition=1)
    write(other, [b"x"])
    expected = {topic: {"0": 0, "1": 1}, other: {"0": 1}}
    until(lambda: latest(stream, start) == expected)
    planned = stream.partitions(start, expected)
    assert {(*each.partition, each.start, each.end) for each in planned
            if isinstance(each, OffsetRange)} == {(topic, 1, 0, 1), (other, 0, 0, 1)}  # fmt: skip


def test_records_that_aged_out_before_they_were_read_are_data_loss(
    bootstrap: str, admin: AdminClient, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"x"] * 10)
    where = ClientPartition(topic, 0, 6)
    admin.delete_records([where])[where].result()
    start, end = {topic: {"0": 2}}, {topic: {"0": 10}}
    with pytest.raises(DataLoss, match="begins at 6 now, the query stands at 2"):
        reader(bootstrap, subscribe=topic).partitions(start, end)
    reader(bootstrap, subscribe=topic, failOnDataLoss="false").partitions(start, end)


def test_a_log_that_is_shorter_than_what_was_read_is_data_loss(
    bootstrap: str, make_topic: MakeTopic, write: Write
) -> None:
    topic = make_topic(partitions=1, replicas=1)
    write(topic, [b"x"] * 3)
    with pytest.raises(DataLoss, match="ends at 3 now, the query had read up to 10"):
        latest(reader(bootstrap, subscribe=topic), {topic: {"0": 10}})
    tolerant = reader(bootstrap, subscribe=topic, failOnDataLoss="false")
    assert latest(tolerant, {topic: {"0": 10}}) == {topic: {"0": 10}}, "offsets never go back"
