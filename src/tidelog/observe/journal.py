"""Events for people and programs: one readable line, or one JSON-able dict.

Invariant  A line holds no line break, whatever the event's texts contain.
Invariant  Line and dict say when it happened and which node tells of it; a dict has the number of
           the event in the node's journal, too.
Invariant  A dict holds only strings, integers, booleans, None and lists of them; a partition is
           given as `topic` and `partition`, an identity in Kafka's text form.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

from tidelog.model.ids import TopicPartition, uuid_text
from tidelog.observe.events import OF_THE_NODE_ITSELF, Event

Plain: TypeAlias = str | int | bool | list[str | int] | None


def timestamp(wall_ms: int) -> str:
    """A moment as people and programs read it: UTC, ISO 8601, milliseconds."""
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"


def as_dict(event: Event, node: int, wall_ms: int, sequence: int) -> dict[str, Plain]:
    """The event with its number, moment, speaker and kind, ready to become one JSON line."""
    entry: dict[str, Plain] = {
        "seq": sequence,
        "at": timestamp(wall_ms),
        "node": node,
        "event": type(event).__name__,
    }
    for field in fields(event):
        value: object = getattr(event, field.name)
        match value:
            case TopicPartition(topic=topic, partition=partition):
                entry["topic"] = topic
                entry["partition"] = partition
            case UUID():
                entry[field.name] = uuid_text(value)
            case tuple():
                entry[field.name] = [item if isinstance(item, int) else str(item) for item in value]
            case bool() | int() | str() | None:
                entry[field.name] = value
            case _:
                entry[field.name] = str(value)
    return entry


def words(event: Event, node: int) -> str:
    """What happened, as a whole sentence also where it happened to the node that tells of it."""
    return f"node {node} {event}" if isinstance(event, OF_THE_NODE_ITSELF) else str(event)


def as_line(event: Event, node: int, wall_ms: int) -> str:
    """The event as one line: when, who tells, what, why."""
    told = words(event, node)
    speaker = "" if isinstance(event, OF_THE_NODE_ITSELF) else f"node {node}: "
    cause = f": {event.cause}" if event.cause else ""
    return f"{timestamp(wall_ms)} {' '.join(f'{speaker}{told}{cause}'.split())}"
