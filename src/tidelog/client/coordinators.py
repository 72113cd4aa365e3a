"""Finding the broker that answers for a group or a transactional id."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import RequestRefused, require_accepted
from tidelog.model.errors import ErrorCode
from tidelog.protocol.messages.find_coordinator import FindCoordinatorRequest


class KeyType(IntEnum):
    """What a key belongs to."""

    GROUP = 0
    TRANSACTION = 1


class Coordinator(NamedTuple):
    """The broker that answers for a key."""

    node_id: int
    connection: Connection


def coordinator(client: Client, key: str, key_type: KeyType) -> Coordinator:
    """The coordinator of a key; a retriable refusal while there is none."""
    answer = client.call(
        FindCoordinatorRequest(key=key, key_type=int(key_type), coordinator_keys=[key])
    )
    found = answer.coordinators[0] if answer.coordinators else answer
    require_accepted(found, f"coordinator of {key}")
    node_id = found.node_id
    if node_id not in client.refresh([]).brokers:
        # It was the coordinator until a moment ago; another one is about to be.
        raise RequestRefused(ErrorCode.coordinator_not_available, f"coordinator of {key}")
    return Coordinator(node_id, client.broker(node_id))
