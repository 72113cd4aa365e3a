"""The lag of a streaming query, from the progress Spark reports."""

from __future__ import annotations

import json
from typing import Any
from uuid import UUID

from pyspark.sql.streaming.listener import SinkProgress, SourceProgress, StreamingQueryProgress

from tidelog.spark.lag import Lag, lag


def progress(*sources: tuple[Any, Any]) -> StreamingQueryProgress:
    """A progress with these pairs of `endOffset` and `latestOffset`."""
    query = UUID(int=1)
    reported = [
        SourceProgress("", "", _text(done), _text(latest), 0, 0.0, 0.0, {})
        for done, latest in sources
    ]
    sink = SinkProgress("", 0, {})
    return StreamingQueryProgress(
        query, query, None, "", 0, 0, {}, {}, [], reported, sink, 0, 0.0, 0.0, {}
    )


def _text(offsets: Any) -> str:
    return "None" if offsets is None else json.dumps(offsets)


def test_the_lag_is_the_distance_to_the_end_of_each_partition() -> None:
    done = {"orders": {"0": 10, "1": 7}, "@epochs": {"orders": {"0": 3}}}
    latest = {"orders": {"0": 14, "1": 7}, "@epochs": {"orders": {"0": 4}}}
    found = lag(progress((done, latest)))
    assert found.by_partition == {("orders", 0): 4, ("orders", 1): 0}
    assert found.total == 4
    assert found.metrics == {
        "minOffsetsBehindLatest": "0",
        "maxOffsetsBehindLatest": "4",
        "avgOffsetsBehindLatest": "2.0",
    }


def test_nothing_of_a_partition_that_is_new_was_read() -> None:
    found = lag(progress(({"orders": {"0": 3}}, {"orders": {"0": 3, "1": 5}})))
    assert found.by_partition == {("orders", 0): 0, ("orders", 1): 5}


def test_a_partition_that_is_read_twice_is_as_late_as_its_slowest_reader() -> None:
    latest = {"orders": {"0": 9}}
    found = lag(progress(({"orders": {"0": 9}}, latest), ({"orders": {"0": 2}}, latest)))
    assert found.by_partition == {("orders", 0): 7}


def test_a_log_that_became_shorter_is_not_ahead() -> None:
    assert lag(progress(({"orders": {"0": 9}}, {"orders": {"0": 4}}))).total == 0


def test_sources_that_are_no_topics_have_no_lag() -> None:
    others = progress((4, 7), ({"logOffset": 1}, {"logOffset": 2}), ({"orders": {"0": 1}}, None))
    assert lag(others) == Lag({})
    assert lag(others).metrics == {}
    assert lag(None) == Lag({})
