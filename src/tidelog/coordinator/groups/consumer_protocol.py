"""What consumers put into the opaque bytes of the classic protocol: subscriptions, assignments.

The coordinator looks into them only to know which topics a group reads, and to let members of
both protocols live in one group.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Final

from tidelog.protocol.schema import Int32, MalformedMessage, Schema, wire

CONSUMER: Final = "consumer"
"""The protocol type of consumers."""
_INT16: Final = struct.Struct(">h")
_NEVER: Final = 1 << 15
_LATEST: Final = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedPartitions:
    """Partitions of one topic."""

    topic: str
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolSubscription:
    """What a consumer wants to read, and what it has."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[NamedPartitions, ...] = field(default=(), metadata=wire(since=1))
    generation_id: Int32 = field(default=-1, metadata=wire(since=2))
    rack_id: str | None = field(default=None, metadata=wire(since=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerProtocolAssignment:
    """What a consumer is to read."""

    assigned_partitions: tuple[NamedPartitions, ...]
    user_data: bytes | None = None


_SUBSCRIPTION: Final = Schema(
    ConsumerProtocolSubscription, versions=(0, _LATEST), flexible_since=_NEVER
)
_ASSIGNMENT: Final = Schema(
    ConsumerProtocolAssignment, versions=(0, _LATEST), flexible_since=_NEVER
)


def read_subscription(data: bytes) -> ConsumerProtocolSubscription | None:
    """The subscription in a member's metadata; None when it is something else.

    Versions to come add fields behind those of the latest one we know.
    """
    if len(data) < _INT16.size:
        return None
    (version,) = _INT16.unpack_from(data)
    if version < 0:
        return None
    try:
        return _SUBSCRIPTION.decode(memoryview(data)[_INT16.size :], min(version, _LATEST))
    except MalformedMessage:
        return None


def write_subscription(topics: tuple[str, ...]) -> bytes:
    """The metadata of a member that wants to read these topics."""
    subscription = ConsumerProtocolSubscription(topics=topics)
    return _INT16.pack(_LATEST) + _SUBSCRIPTION.encode(subscription, _LATEST)


def read_assignment(data: bytes) -> tuple[NamedPartitions, ...]:
    """The partitions in a member's assignment; none where it is something else."""
    if len(data) < _INT16.size:
        return ()
    (version,) = _INT16.unpack_from(data)
    try:
        body = memoryview(data)[_INT16.size :]
        return _ASSIGNMENT.decode(body, max(0, min(version, _LATEST))).assigned_partitions
    except MalformedMessage:
        return ()


def write_assignment(assigned: tuple[NamedPartitions, ...], version: int) -> bytes:
    """An assignment in the bytes of a member that speaks `version`."""
    version = min(version, _LATEST)
    assignment = ConsumerProtocolAssignment(assigned_partitions=assigned)
    return _INT16.pack(version) + _ASSIGNMENT.encode(assignment, version)


def version_of(data: bytes) -> int:
    """Which version of the protocol a member's metadata is in."""
    return int(_INT16.unpack_from(data)[0]) if len(data) >= _INT16.size else 0
