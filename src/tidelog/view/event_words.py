"""Events as a node writes them, with their sentence: the classes that made them say it again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any, Final, get_args
from uuid import UUID

from tidelog.model.ids import TopicPartition, parse_uuid_text
from tidelog.observe.events import Event
from tidelog.observe.journal import words

_KINDS: Final = {kind.__name__: kind for kind in get_args(Event)}


def event_sentence(entry: Mapping[str, Any]) -> str:
    """What happened and why, in the words of the node's log; the bare kind of a foreign event."""
    cause = entry.get("cause")
    because = f": {cause}" if cause else ""
    try:
        told = words(event_of(entry), int(entry["node"]))
    except (KeyError, TypeError, ValueError):  # a node of another version may say other things
        told = str(entry.get("event", "something happened"))
    return " ".join(f"{told}{because}".split())


def event_of(entry: Mapping[str, Any]) -> Event:
    """The event that a line of the journal was made of."""
    kind = _KINDS[entry["event"]]
    values: dict[str, Any] = {}
    for field in fields(kind):
        annotation = str(field.type)
        if annotation == TopicPartition.__name__:
            values[field.name] = TopicPartition(entry["topic"], int(entry["partition"]))
        elif annotation == UUID.__name__:
            values[field.name] = parse_uuid_text(entry[field.name])
        elif field.name in entry:
            value = entry[field.name]
            values[field.name] = tuple(value) if isinstance(value, list) else value
    event: Event = kind(**values)
    return event
