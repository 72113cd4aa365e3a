"""What an answer tells a client, so that the answers of two brokers can be compared."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import fields, is_dataclass
from typing import Any

OWN_TO_A_BROKER = frozenset({"throttle_time", "error_message", "node_id", "port", "topic_id"})


def told(answer: Any, besides: Collection[str] = ()) -> object:
    """The content in an order of its own, without the fields named `besides`."""
    if is_dataclass(answer):
        names = [each.name for each in fields(answer)]
        return {
            name: told(getattr(answer, name), besides)
            for name in names
            if name not in OWN_TO_A_BROKER and name not in besides
        }
    if isinstance(answer, tuple):
        parts = [told(part, besides) for part in answer]
        said = [part for part in parts if not (isinstance(part, dict) and _is_empty(part))]
        return sorted(said, key=repr)
    return repr(answer)


def _is_empty(part: dict[str, object]) -> bool:
    """A topic without partitions, which Apache Kafka leaves out."""
    return part.get("partitions") == []
