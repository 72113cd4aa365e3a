"""An event as it was told: read back from a line of a journal, whoever wrote it.

Invariant  A line of a later version, with a kind or a field that is not known here, is an event
           like others; only its words are plainer.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, NamedTuple, get_args

from tidelog.model.ids import TopicPartition, parse_uuid_text
from tidelog.observe.events import Event
from tidelog.observe.journal import as_dict, timestamp, words

_KINDS: Final[Mapping[str, type[Event]]] = {kind.__name__: kind for kind in get_args(Event)}
_HEAD: Final = ("seq", "at", "node", "event")


class ToldEvent(NamedTuple):
    """What happened, when, and which node tells of it."""

    at_ms: int
    node: int
    sequence: int
    kind: str
    fields: Mapping[str, Any]
    """As in the journal: a partition is `topic` and `partition`."""

    @property
    def cause(self) -> str:
        return str(self.fields.get("cause", ""))

    @property
    def partition(self) -> TopicPartition | None:
        topic, index = self.fields.get("topic"), self.fields.get("partition")
        if isinstance(topic, str) and isinstance(index, int):
            return TopicPartition(topic, index)
        return None

    @property
    def words(self) -> str:
        """What happened, as the node that tells it would say it, on one line."""
        said = _said(self)
        if said is not None:
            return " ".join(said.split())
        told = (f"{name}={value}" for name, value in self.fields.items() if name != "cause")
        return " ".join(" ".join((self.kind, *told)).split())

    @property
    def sentence(self) -> str:
        """What happened and why, in the words of the node's log."""
        cause = f": {' '.join(self.cause.split())}" if self.cause else ""
        return f"{self.words}{cause}"

    @property
    def is_of_the_node(self) -> bool:
        """Whether its words begin with the node that tells it."""
        return self.words.startswith(f"node {self.node} ")

    def line(self, *, with_cause: bool) -> str:
        """The event as one line: when, who tells, what, and why if that is wanted."""
        speaker = "" if self.is_of_the_node else f"node {self.node}: "
        said = self.sentence if with_cause else self.words
        return f"{timestamp(self.at_ms)} {speaker}{said}"

    def entry(self) -> dict[str, Any]:
        """The event as it stands in the journal."""
        head = (self.sequence, timestamp(self.at_ms), self.node, self.kind)
        return {**dict(zip(_HEAD, head, strict=True)), **self.fields}

    def is_about(self, name: str) -> bool:
        """Whether it concerns a topic, or a partition such as orders-0."""
        return name in (self.fields.get("topic"), str(self.partition))


def told(event: Event, node: int, wall_ms: int, sequence: int) -> ToldEvent:
    """An event that was just announced."""
    return _told(as_dict(event, node, wall_ms, sequence))


def read_event(line: str) -> ToldEvent | None:
    """The event on a line of a journal; None where there is none."""
    try:
        return read_entry(json.loads(line, parse_constant=_refuse_constant))
    except (ValueError, RecursionError):
        return None


def read_entry(entry: Mapping[str, Any]) -> ToldEvent | None:
    """The event that an object of a journal stands for; None where it stands for none."""
    try:
        return _told(entry)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError, RecursionError):
        return None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def in_order(events: Iterable[ToldEvent]) -> list[ToldEvent]:
    """By time; what one node tells of one moment stays in its order."""
    return sorted(events, key=lambda event: (event.at_ms, event.node, event.sequence))


def _told(entry: Mapping[str, Any]) -> ToldEvent:
    moment = datetime.fromisoformat(entry["at"])
    return ToldEvent(
        round(moment.timestamp() * 1000),
        int(entry["node"]),
        int(entry["seq"]),
        str(entry["event"]),
        {name: value for name, value in entry.items() if name not in _HEAD},
    )


def _said(told: ToldEvent) -> str | None:
    """The words of the event behind an entry; None when it is of another version."""
    if told.kind not in _KINDS:
        return None
    try:
        values: dict[str, Any] = {}
        for field in fields(_KINDS[told.kind]):
            if field.type == "TopicPartition":
                values[field.name] = TopicPartition(told.fields["topic"], told.fields["partition"])
            elif field.type == "UUID":
                values[field.name] = parse_uuid_text(told.fields[field.name])
            else:
                value = told.fields[field.name]
                values[field.name] = tuple(value) if isinstance(value, list) else value
        return words(_KINDS[told.kind](**values), told.node)
    except (LookupError, ValueError, TypeError, AttributeError):
        return None
