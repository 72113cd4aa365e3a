"""Tagged fields of our own: what nodes of Tidelog tell each other, and everybody else passes over.

Of a flexible version whoever does not know a tag skips it, so that Apache Kafka may be the peer.

Invariant  A message is complete without these fields: they are absent whenever the peer is another.
Invariant  The tags are far from the few that Kafka's definitions take, from 0 on.
"""

from __future__ import annotations

import dataclasses
from functools import cache
from typing import Any, Final, NamedTuple

from tidelog.protocol.apis import ApiKey

FIRST_TAG: Final = 10_000
UNKNOWN_DECISION: Final = -1


class _OwnField(NamedTuple):
    name: str
    annotation: Any
    kind: str
    default: Any


_OWN: Final = {
    (ApiKey.WRITE_TXN_MARKERS, "WritableTxnMarker"): (
        # When the coordinator decided: orders the ends of one producer in one coordinator epoch.
        _OwnField("decided_ms", int, "int64", UNKNOWN_DECISION),
    ),
    (ApiKey.WRITE_TXN_MARKERS, "WritableTxnMarkerTopic"): (
        # Beside the partition indexes: in which epochs their leader is asked.
        _OwnField("leader_epochs", tuple[int, ...], "int32", ()),
    ),
}


@cache
def with_own_fields(entity: Any) -> Any:
    """kio's class of a struct, or one that has our fields besides."""
    if not entity.__flexible__:
        return entity
    own = _OWN.get((ApiKey(entity.__api_key__), entity.__name__))
    if own is None:
        return entity
    fields = [
        (
            field.name,
            field.annotation,
            dataclasses.field(
                default=field.default, metadata={"kafka_type": field.kind, "tag": tag}
            ),
        )
        for tag, field in enumerate(own, FIRST_TAG)
    ]
    return dataclasses.make_dataclass(
        entity.__name__,
        fields,
        bases=(entity,),
        namespace={"__module__": entity.__module__},
        frozen=True,
        slots=True,
        kw_only=True,
    )
