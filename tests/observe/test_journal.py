from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import get_args
from uuid import UUID

import pytest

from tidelog.model.ids import TopicPartition
from tidelog.observe import (
    access_events,
    cleaning_events,
    cluster_events,
    coordinator_events,
    events,
    replication_events,
)
from tidelog.observe.cluster_events import InSyncReplicasDecided
from tidelog.observe.events import Event, LogRecovered, NodeStarted, TopicCreated
from tidelog.observe.journal import as_dict, as_line, timestamp

KINDS: tuple[type, ...] = get_args(Event)


def example(kind: type) -> Event:
    """Any event of that kind, with a value per field that its annotation allows."""
    values: dict[str, object] = {
        "int": 7,
        "str": "text",
        "bool": True,
        "tuple[str, ...]": ("broker", "controller"),
        "tuple[int, ...]": (100, 102),
        "UUID": UUID(int=3),
        "TopicPartition": TopicPartition("orders", 4),
    }
    event: Event = kind(**{field.name: values[str(field.type)] for field in fields(kind)})
    return event


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_says_who_speaks_when_of_which_partition_and_why(kind: type) -> None:
    event = example(kind)
    entry = as_dict(event, 102, 1_700_000_000_123, 41)

    assert entry["event"] == kind.__name__
    assert (entry["seq"], entry["at"], entry["node"]) == (41, "2023-11-14T22:13:20.123Z", 102)
    assert "node_id" not in entry
    if any(field.type == "TopicPartition" for field in fields(kind)):
        assert (entry["topic"], entry["partition"]) == ("orders", 4)
    assert entry["cause"] == "text"
    assert json.loads(json.dumps(entry)) == entry
    line = as_line(event, 102, 1_700_000_000_123)
    assert re.match(r"2023-11-14T22:13:20.123Z node 102:? \w", line)
    assert line.count("node 102") == 1
    assert line.endswith(": text")
    assert "\n" not in line


def test_every_event_class_is_part_of_the_union() -> None:
    declared = {
        value
        for module in (
            events,
            access_events,
            cleaning_events,
            cluster_events,
            coordinator_events,
            replication_events,
        )
        for value in vars(module).values()
        if isinstance(value, type) and value.__module__ == module.__name__
    }
    assert declared == set(KINDS)


def test_a_partition_is_given_as_topic_and_number() -> None:
    event = LogRecovered(
        partition=TopicPartition("orders", 4),
        start_offset=0,
        end_offset=10,
        cut_bytes=33,
        cause="torn batch at offset 10",
    )

    entry = as_dict(event, 102, 0, 1)

    assert (entry["topic"], entry["partition"], entry["cut_bytes"]) == ("orders", 4, 33)
    assert as_line(event, 102, 0) == (
        "1970-01-01T00:00:00.000Z node 102: orders-4 recovered with offsets 0 to 10, 33 bytes cut: "
        "torn batch at offset 10"
    )


def test_an_identity_is_given_in_its_text_form() -> None:
    event = TopicCreated(
        topic="orders",
        topic_id=UUID(int=1),
        partitions=6,
        replication_factor=3,
        cause="asked by a client",
    )
    assert as_dict(event, 102, 0, 1)["topic_id"] == "AAAAAAAAAAAAAAAAAAAAAQ"


def test_line_breaks_in_a_cause_do_not_break_the_line() -> None:
    event = NodeStarted(cluster_id="c", roles=("broker",), cause="first\nsecond")
    assert as_line(event, 102, 0).count("\n") == 0


def test_moments_before_and_after_a_full_second_keep_their_milliseconds() -> None:
    assert timestamp(999) == "1970-01-01T00:00:00.999Z"
    assert timestamp(1000) == "1970-01-01T00:00:01.000Z"


def test_numbers_in_lists_stay_numbers() -> None:
    event = InSyncReplicasDecided(
        partition=TopicPartition("orders", 0),
        in_sync=(100, 102),
        in_sync_before=(100, 101, 102),
        eligible=(),
        cause="why",
    )
    assert as_dict(event, 102, 0, 1)["in_sync"] == [100, 102]
