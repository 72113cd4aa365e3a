"""Tells a field that another version of a message has from one that no version has.

Handlers fill in the fields of all versions at once and the writer drops what a version lacks, so
a misspelt name would vanish without a trace. Other versions are only looked at, newest first,
when a name does not fit the version at hand.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any

from tests.protocol.kio_messages.entity_schema import MessageKind, UnknownMessage, message_classes

from tidelog.model.errors import invariant

_NEWEST_CONCEIVABLE = 24


@cache
def require_known_elsewhere(entity: Any, names: frozenset[str]) -> None:
    """Stop the node unless each name belongs to the same struct in some version of the API."""
    kind: MessageKind = "request" if entity.__module__.endswith(".request") else "response"
    unexplained = set(names)
    for version in range(_NEWEST_CONCEIVABLE, -1, -1):
        if not unexplained:
            return
        try:
            classes = message_classes(entity.__api_key__, version, kind)
        except UnknownMessage:
            continue
        for other in classes:
            if other.__name__ == entity.__name__:
                unexplained -= {field.name for field in dataclasses.fields(other)}
    invariant(not unexplained, f"{entity.__name__} has no field {sorted(unexplained)}")
