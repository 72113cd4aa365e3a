"""Finding the broker that answers for a group or a transactional id."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.connection import Connection
from tidelog.client.errors import RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey


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
    fields = {"key": key, "key_type": int(key_type), "coordinator_keys": [key]}
    answer = client.call(ApiKey.FIND_COORDINATOR, fields)
    found = answer.coordinators[0] if hasattr(answer, "coordinators") else answer
    code = ErrorCode(found.error_code)
    if code is not ErrorCode.none:
        raise RequestRefused(code, f"coordinator of {key}", getattr(found, "error_message", None))
    node_id = int(found.node_id)
    if node_id not in client.refresh([]).brokers:
        # It was the coordinator until a moment ago; another one is about to be.
        raise RequestRefused(ErrorCode.coordinator_not_available, f"coordinator of {key}")
    return Coordinator(node_id, client.broker(node_id))
