"""What a stream reads when Spark plans a batch, crashes, and repeats it from what it has stored."""

from __future__ import annotations

import json
from typing import Any, cast

import pytest
from tests.spark.memory_log import Log

from tidelog.model.ids import TopicPartition
from tidelog.spark.errors import DataLoss, OtherPartitions
from tidelog.spark.options import stream_options
from tidelog.spark.source.ranges import OffsetRange
from tidelog.spark.source.schema import read_schema
from tidelog.spark.source.stream_reader import StreamReader
from tidelog.spark.source.topics import Topics


def query(log: Log, **options: str) -> StreamReader:
    """A run of the query: nothing is left of an earlier one but what Spark has stored."""
    given = stream_options(
        {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribePattern": "orders", **options}
    )
    reader = StreamReader(given, read_schema(given))
    reader._known_topics = cast(Topics, log)
    return reader


def plan(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of the next batch, as Spark stores it."""
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    stored: dict[str, Any] = json.loads(json.dumps(end))
    return stored


def read(
    reader: StreamReader, start: dict[str, Any], end: dict[str, Any]
) -> list[tuple[int, int, int]]:
    found = reader.partitions(start, end)
    return [
        (each.partition.partition, each.start, each.end)
        for each in found
        if isinstance(each, OffsetRange)
    ]


STARTS = ["-100", "-10 minutes", "latest"]


@pytest.mark.parametrize("start", STARTS)
def test_the_first_batch_repeated_reads_what_was_planned(start: str) -> None:
    log = Log((0, 500), (0, 40))
    first = query(log, startingOffsets=start)
    initial = first.initialOffset()
    log.grow(p0=(0, 600), p1=(0, 50))
    end = plan(first, initial)
    planned = read(first, initial, end)
    assert planned
    log.grow(p0=(0, 9000), p1=(0, 7000))
    again = query(log, startingOffsets=start)
    assert read(again, again.initialOffset(), end) == planned


@pytest.mark.parametrize("start", STARTS)
def test_a_first_batch_without_records_stays_without(start: str) -> None:
    log = Log((0, 0))
    first = query(log, startingOffsets=start)
    end = plan(first, first.initialOffset())
    log.grow(p0=(0, 300))
    again = query(log, startingOffsets=start)
    assert read(again, again.initialOffset(), end) == []
    assert read(again, end, plan(again, end)) == [(0, 0, 300)], "they belong to the next batch"


def test_a_partition_that_is_new_in_a_batch_starts_where_it_was_planned() -> None:
    log = Log((0, 10))
    first = query(log, startingOffsets="earliest")
    one = plan(first, first.initialOffset())
    log.grow(p1=(0, 5))
    two = plan(first, one)
    log.grow(p1=(3, 5))
    tolerant = query(log, failOnDataLoss="false")
    assert read(tolerant, one, two) == [(1, 0, 5)]
    with pytest.raises(DataLoss, match="begins at 3 now, the query stands at 0"):
        read(query(log), one, two)


def test_partitions_added_since_do_not_keep_the_first_batch_from_being_repeated() -> None:
    log = Log((0, 10))
    exact = {"startingOffsets": '{"orders": {"0": 4}}'}
    first = query(log, **exact)
    end = plan(first, first.initialOffset())
    log.grow(p1=(0, 5))
    again = query(log, **exact)
    assert read(again, again.initialOffset(), end) == [(0, 4, 10)]
    assert read(again, end, plan(again, end)) == [(1, 0, 5)]


def test_a_time_that_no_record_has_any_more_does_not_either() -> None:
    end = {"orders": {"0": 10}, "@starts": {"orders": {"0": 4}}}
    again = query(Log((0, 10)), startingTimestamp="1000")
    assert read(again, again.initialOffset(), end) == [(0, 4, 10)]


def test_a_start_that_is_refused_is_said_before_the_first_batch_is_planned() -> None:
    incomplete = query(Log((0, 10), (0, 5)), startingOffsets='{"orders": {"0": 4}}')
    start = incomplete.initialOffset()
    with pytest.raises(OtherPartitions, match="startingOffsets does not mention orders-1"):
        plan(incomplete, start)
    with pytest.raises(OtherPartitions, match="startingOffsets does not mention orders-1"):
        read(incomplete, start, {"orders": {"0": 10, "1": 5}})


def test_offsets_stored_without_starts_are_read_from_the_start_that_spark_names() -> None:
    start, end = {"orders": {"0": 4}}, {"orders": {"0": 10, "1": 5}}
    assert read(query(Log((0, 20), (0, 20))), start, end) == [(0, 4, 10), (1, 0, 5)]


def test_a_start_behind_the_end_of_its_batch_is_data_loss() -> None:
    """Stored without starts, and the start has moved since."""
    log, end = Log((0, 200)), {"orders": {"0": 100}}
    moved = query(log, startingOffsets="latest")
    with pytest.raises(DataLoss, match="orders-0: this batch ends at 100 and would start at 200"):
        read(moved, moved.initialOffset(), end)
    tolerant = query(log, startingOffsets="latest", failOnDataLoss="false")
    assert read(tolerant, tolerant.initialOffset(), end) == []


def test_nothing_behind_an_end_that_is_given_is_read() -> None:
    log = Log((0, 500), (0, 40))
    reader = query(log, startingOffsets="earliest", endingOffsets='{"orders": {"0": 100, "1": 60}}')
    start = reader.initialOffset()
    first = plan(reader, start)
    assert read(reader, start, first) == [(0, 0, 100), (1, 0, 40)]
    log.grow(p0=(0, 900), p1=(0, 90))
    second = plan(reader, first)
    assert read(reader, first, second) == [(1, 40, 60)]
    assert plan(reader, second) == second
    beyond = query(log, endingOffsets='{"orders": {"0": 50, "1": 50}}')
    assert read(beyond, second, plan(beyond, second)) == [], "offsets never go back"


def test_an_offset_without_anything_new_stays_as_it_is() -> None:
    """Spark makes another batch whenever the text differs."""
    log = Log((0, 10))
    reader = query(log, startingOffsets="earliest")
    end = plan(reader, reader.initialOffset())
    assert plan(reader, end) == end
    assert read(reader, end, end) == [], "the starts in it are those of the batch before"


def test_a_partition_that_is_not_to_be_seen_for_a_while_keeps_its_position() -> None:
    log = Log((0, 10), (0, 10))
    reader = query(log, startingOffsets="earliest", failOnDataLoss="false")
    one = plan(reader, reader.initialOffset())
    log.hidden = {TopicPartition("orders", 1)}
    log.grow(p0=(0, 12), p1=(0, 15))
    two = plan(reader, one)
    assert read(reader, one, two) == [(0, 10, 12)]
    log.hidden = set()
    assert read(reader, two, plan(reader, two)) == [(1, 10, 15)], "not from the beginning"
    log.hidden = {TopicPartition("orders", 1)}
    with pytest.raises(DataLoss, match="orders-1 is no longer there, the query had read up to 10"):
        plan(query(log), two)


def test_a_partition_outside_the_target_of_a_run_keeps_its_position() -> None:
    log = Log((0, 10), (0, 10))
    reader = query(log, startingOffsets="earliest")
    one = plan(reader, reader.initialOffset())
    log.hidden = {TopicPartition("orders", 1)}
    reader.prepareForTriggerAvailableNow()
    log.hidden = set()
    assert plan(reader, one) == one
