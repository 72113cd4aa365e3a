from __future__ import annotations

import json

import pytest
from tests.observe.test_journal import KINDS, example

from tidelog.model.ids import TopicPartition
from tidelog.observe.events import LogRecovered, NodeStopped
from tidelog.observe.journal import as_dict, as_line
from tidelog.observe.told_event import in_order, read_event, told

AT_MS = 1_763_303_180_999


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_reads_the_same_from_its_journal(kind: type) -> None:
    event = example(kind)
    line = json.dumps(as_dict(event, 100, AT_MS, 7))

    found = read_event(line)

    assert found is not None
    assert found == told(event, 100, AT_MS, 7)
    assert found.entry() == json.loads(line)
    assert found.line(with_cause=True) == as_line(event, 100, AT_MS)
    assert as_line(event, 100, AT_MS).endswith(found.sentence)
    assert found.line(with_cause=False) == as_line(event, 100, AT_MS).removesuffix(": text")


def test_an_event_of_a_later_version_is_told_as_plainly_as_it_came() -> None:
    line = (
        '{"seq":3,"at":"2026-11-16T10:00:00.250Z","node":101,"event":"TideTurned","topic":"orders",'
        '"partition":0,"level":4,"cause":"the moon"}'
    )

    found = read_event(line)

    assert found is not None
    assert found.partition == TopicPartition("orders", 0)
    assert found.line(with_cause=True) == (
        "2026-11-16T10:00:00.250Z node 101: TideTurned topic=orders partition=0 level=4: the moon"
    )


def test_an_event_with_fields_of_another_kind_is_told_plainly() -> None:
    line = (
        '{"seq":3,"at":"2026-11-16T10:00:00.250Z","node":101,"event":"NodeStarted",'
        '"cluster_id":"c","roles":7,"cause":""}'
    )

    found = read_event(line)

    assert found is not None
    assert found.sentence == "NodeStarted cluster_id=c roles=7"


@pytest.mark.parametrize(
    "line",
    ["", "{", "7", "{}", '{"seq":1}', '{"seq":"x","at":"x"}', "[" * 10_000,
     '{"seq":1,"at":"2026-11-16T10:00:00Z","node":1,"event":"MoonRose","level":NaN}',
     '{"seq":1e999,"at":"2026-11-16T10:00:00Z","node":1,"event":"MoonRose"}'],
)  # fmt: skip
def test_a_line_that_is_no_event_is_passed_over(line: str) -> None:
    assert read_event(line) is None


def test_events_of_several_nodes_are_in_the_order_of_time_and_then_of_each_journal() -> None:
    event = NodeStopped(clean=True, cause="")
    events = [told(event, *where) for where in ((2, 5, 1), (1, 5, 9), (1, 5, 8), (3, 4, 7))]

    assert [(each.at_ms, each.node, each.sequence) for each in in_order(events)] == [
        (4, 3, 7),
        (5, 1, 8),
        (5, 1, 9),
        (5, 2, 1),
    ]


def test_an_event_is_about_its_topic_and_its_partition() -> None:
    found = told(example(LogRecovered), 100, AT_MS, 1)

    assert found.partition == TopicPartition("orders", 4)
    assert found.is_about("orders") and found.is_about("orders-4")
    assert not found.is_about("orders-40") and not found.is_about("order")
