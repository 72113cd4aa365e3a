"""Why something is so, as pages ask it: the stories of `tidelog why`, from the events that the view
has heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tidelog.model.errors import ConfigError
from tidelog.model.ids import TopicPartition
from tidelog.observe.causes import causes_of, explain
from tidelog.observe.told_event import ToldEvent, read_entry

Entries = Sequence[Mapping[str, Any]]
Endings = Callable[[], Mapping[int, str]]
"""How nodes ended that do not run, where somebody knows it."""


class Reasons:
    """Explains from the events that are known when somebody asks."""

    def __init__(self, entries: Callable[[], Entries], endings: Endings) -> None:
        self._entries, self._endings = entries, endings

    def of_partition(self, partition: str) -> dict[str, Any]:
        """How a partition came to its present leader and in-sync replicas, the newest last."""
        name = TopicPartition.from_directory(partition)
        if name is None:
            raise ConfigError(f"{partition!r} is not a partition such as orders-0")
        explained = explain(name, self._events(), self._endings())
        steps = [step.entry() for step in explained.steps]
        return {"summary": explained.summary, "steps": steps}

    def of_event(self, node: int, sequence: int) -> dict[str, Any]:
        """What led to an event, with itself at the end."""
        events = self._events()
        for event in events:
            if (event.node, event.sequence) == (node, sequence):
                steps = causes_of(event, events, self._endings())
                return {"summary": event.words, "steps": [step.entry() for step in steps]}
        raise ConfigError(f"event {sequence} of node {node} is not kept any more")

    def _events(self) -> list[ToldEvent]:
        found = (read_entry(entry) for entry in self._entries())
        return [event for event in found if event is not None]
