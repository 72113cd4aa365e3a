"""Events for people and programs: one readable line, or one JSON-able dict.

Invariant  A line holds no line break, whatever the event's texts contain.
Invariant  A dict holds only strings, integers, booleans, None and lists of them; a partition is
           given as `topic` and `partition`, an identity in Kafka's text form.
"""

from __future__ import annotations

from dataclasses import fields
from datetime import UTC, datetime
from typing import TypeAlias
from uuid import UUID

from tidelog.model.ids import TopicPartition, uuid_text
from tidelog.observe.events import Event

Plain: TypeAlias = str | int | bool | list[str | int] | None


def timestamp(wall_ms: int) -> str:
    """A moment as people and programs read it: UTC, ISO 8601, milliseconds."""
    moment = datetime.fromtimestamp(wall_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{wall_ms % 1000:03d}Z"


def as_dict(event: Event, wall_ms: int) -> dict[str, Plain]:
    """The event with its kind and moment, ready to become one JSON line."""
    entry: dict[str, Plain] = {"at": timestamp(wall_ms), "event": type(event).__name__}
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


def as_line(event: Event, wall_ms: int) -> str:
    """The event as one line: when, what, why."""
    words = f"{event}: {event.cause}" if event.cause else str(event)
    return f"{timestamp(wall_ms)} {' '.join(words.split())}"
