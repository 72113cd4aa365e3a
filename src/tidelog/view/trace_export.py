"""Events as a trace that Perfetto and Chrome's tracing page open.

A process for each node with its events, and one in which each partition has a line that shows who
led it and for how long.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from tidelog.model.ids import NO_LEADER

_LEADERS: Final = 1_000_000
"""The number of the process that stands for leaderships; no node has it."""


def trace_of(events: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The events, in their order, in the JSON of the Trace Event Format."""
    nodes = sorted({int(event["node"]) for event in events})
    trace = [_named("process_name", node, 0, f"node {node}") for node in nodes]
    trace += map(_instant, events)
    trace += _leaderships(events)
    return {"traceEvents": trace, "displayTimeUnit": "ms"}


def _instant(event: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ph": "i",
        "s": "p",
        "pid": int(event["node"]),
        "tid": 0,
        "ts": _moment_us(event),
        "name": event["event"],
        "cat": "event",
        "args": {key: value for key, value in event.items() if key != "event"},
    }


def _leaderships(events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    if not events:
        return []
    trace = [_named("process_name", _LEADERS, 0, "leaders")]
    lines: dict[str, int] = {}
    open_since: dict[str, Mapping[str, Any]] = {}
    last_us = _moment_us(events[-1])
    for event in (each for each in events if each["event"] == "LeaderElected"):
        name = f"{event.get('topic')}-{event.get('partition')}"
        if name not in lines:
            lines[name] = len(lines) + 1
            trace.append(_named("thread_name", _LEADERS, lines[name], name))
        before = open_since.get(name)
        if before is not None and _moment_us(before) < _moment_us(event):  # slices never overlap
            trace.append(_leadership(before, lines[name], _moment_us(event)))
        open_since[name] = event
    trace += [_leadership(event, lines[name], last_us) for name, event in open_since.items()]
    return trace


def _leadership(event: Mapping[str, Any], line: int, until_us: int) -> dict[str, Any]:
    leader = event.get("leader")
    led = "no leader" if leader == NO_LEADER else f"led by {leader}"
    return {
        "ph": "X",
        "pid": _LEADERS,
        "tid": line,
        "ts": _moment_us(event),
        "dur": max(1, until_us - _moment_us(event)),
        "name": f"{led}, epoch {event.get('leader_epoch')}",
        "cat": "leader",
        "args": {"cause": event.get("cause"), "unclean": event.get("unclean")},
    }


def _named(kind: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": process, "tid": thread, "name": kind, "args": {"name": name}}


def _moment_us(event: Mapping[str, Any]) -> int:
    moment = datetime.fromisoformat(str(event["at"]))
    return round(moment.timestamp() * 1_000_000)
