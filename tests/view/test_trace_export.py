"""The timeline as a trace: an instant for each event, a slice for each leadership."""

from __future__ import annotations

import json
from typing import Any

from tests.view.trace_format import complaints_about

from tidelog.view.trace_export import trace_of


def elected(second: int, leader: int, epoch: int) -> dict[str, Any]:
    return {
        "seq": second,
        "at": f"2026-11-16T10:00:{second:02d}.000Z",
        "node": 102,
        "event": "LeaderElected",
        "topic": "orders",
        "partition": 0,
        "leader": leader,
        "leader_epoch": epoch,
        "unclean": False,
        "cause": "because",
    }


def test_a_leadership_lasts_until_the_next_one() -> None:
    trace = trace_of([elected(1, 100, 1), elected(4, 101, 2), elected(9, -1, 3)])["traceEvents"]

    slices = [(each["name"], each["dur"]) for each in trace if each["ph"] == "X"]

    assert slices == [
        ("led by 100, epoch 1", 3_000_000),
        ("led by 101, epoch 2", 5_000_000),
        ("no leader, epoch 3", 1),
    ]


def test_events_stand_in_the_process_of_their_node_with_all_they_say() -> None:
    trace = trace_of([elected(1, 100, 1)])["traceEvents"]

    (instant,) = [each for each in trace if each["ph"] == "i"]

    assert (instant["pid"], instant["name"]) == (102, "LeaderElected")
    assert instant["args"]["cause"] == "because"
    assert {
        "ph": "M",
        "pid": 102,
        "tid": 0,
        "name": "process_name",
        "args": {"name": "node 102"},
    } in trace


def test_every_event_has_what_readers_of_the_format_need() -> None:
    at_once = [elected(4, 101, 2), elected(4, 102, 3)]

    trace = trace_of([elected(1, 100, 1), *at_once, elected(9, -1, 4)])

    assert json.loads(json.dumps(trace)) == trace
    assert complaints_about(trace) == []


def test_nothing_happened_makes_an_empty_trace() -> None:
    assert trace_of([])["traceEvents"] == []
