"""What consumers put into the opaque bytes of the classic protocol: subscriptions, assignments.

The coordinator looks into them only to know which topics a group reads, and to let members of
both protocols live in one group.
"""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.versioned import join_number, split_number
from tidelog.protocol.codec import decode_body, encode
from tidelog.protocol.primitives import MalformedRequest
from tidelog.protocol.stored.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    NamedPartitions,
)

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""
_LATEST: Final = 3


def read_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    """The subscription in a member's metadata; None when it is something else.

    Versions to come add fields behind those of the latest one we know.
    """
    try:
        version, body = split_number(data)
        if version < 0:
            return None
        return decode_body(ConsumerProtocolSubscription, min(version, _LATEST), body)
    except MalformedRequest:
        return None


def write_subscription(topics: tuple[str, ...]) -> bytes:
    """The metadata of a member that wants to read these topics."""
    return join_number(_LATEST, encode(ConsumerProtocolSubscription(topics=topics), _LATEST))


def read_assignment(data: bytes) -> tuple[NamedPartitions, ...]:
    """The partitions in a member's assignment; none where it is something else."""
    try:
        version, body = split_number(data)
        known = max(0, min(version, _LATEST))
        return decode_body(ConsumerProtocolAssignment, known, body).assigned_partitions
    except MalformedRequest:
        return ()


def write_assignment(assigned: tuple[NamedPartitions, ...], version: int) -> bytes:
    """An assignment in the bytes of a member that speaks `version`."""
    version = min(version, _LATEST)
    return join_number(
        version, encode(ConsumerProtocolAssignment(assigned_partitions=assigned), version)
    )


def version_of(data: bytes) -> int:
    """Which version of the protocol a member's metadata is in."""
    try:
        return split_number(data)[0]
    except MalformedRequest:
        return 0
