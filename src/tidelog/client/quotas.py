"""Quotas of users, client ids and addresses, through a `Client`.

Invariant  An entity names its types once each; None is the default of a type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from tidelog.client.blocking import Client
from tidelog.client.errors import require_accepted
from tidelog.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntityData,
    AlterClientQuotasRequestEntryData,
    OpData,
)
from tidelog.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)

Entity: TypeAlias = Mapping[str, str | None]

_EXACT, _DEFAULT = 0, 1


class EntityQuotas(NamedTuple):
    """One entity and what it may do."""

    entity: Entity
    quotas: Mapping[str, float]


def describe_quotas(client: Client, entity: Entity) -> list[EntityQuotas]:
    """The quotas of all that is named like this, and more precisely; an empty one names all."""
    components = [
        ComponentData(entity_type=kind, match_type=_DEFAULT if name is None else _EXACT, match=name)
        for kind, name in entity.items()
    ]
    request = DescribeClientQuotasRequest(components=components, strict=False)

    def attempt() -> list[EntityQuotas]:
        answer = client.call(request)
        require_accepted(answer, "quotas")
        return [
            EntityQuotas(
                {part.entity_type: part.entity_name for part in entry.entity},
                {value.key: value.value for value in entry.values},
            )
            for entry in answer.entries or ()
        ]

    return client.retrying(attempt)


def alter_quotas(client: Client, entity: Entity, changes: Mapping[str, float | None]) -> None:
    """Set the quotas of one entity; None takes one away."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[
            AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in changes.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry])

    def attempt() -> None:
        for answered in client.call(request).entries:
            require_accepted(answered, entity_text(entity))

    client.retrying(attempt)


def entity_text(entity: Entity) -> str:
    """In words: `user ann, any client-id`."""
    return ", ".join(
        f"any {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items()
    )
