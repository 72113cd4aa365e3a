"""The records of `__consumer_offsets`: every stored change of a group is one of these.

A record is a key and a value; the value None removes what the key names. On disk the key is its
type and a plainly encoded body, the value its version and a body.

Invariant  Names, fields and versions are Kafka's, so that its tools read the topic, and a log
           written by one of its brokers can be loaded.
"""

from __future__ import annotations

import struct
from typing import Any, Final, NamedTuple, TypeAlias

from tidelog.coordinator.groups.classic_records import GroupMetadataKey, GroupMetadataValue
from tidelog.coordinator.groups.consumer_records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)
from tidelog.coordinator.groups.offset_records import (
    EXPIRING_OFFSET_VERSION,
    OffsetCommitKey,
    OffsetCommitValue,
)
from tidelog.protocol.schema import MalformedMessage, Schema

GroupKey: TypeAlias = (
    OffsetCommitKey
    | GroupMetadataKey
    | ConsumerGroupMetadataKey
    | ConsumerGroupMemberMetadataKey
    | ConsumerGroupTargetAssignmentMetadataKey
    | ConsumerGroupTargetAssignmentMemberKey
    | ConsumerGroupCurrentMemberAssignmentKey
    | ConsumerGroupRegularExpressionKey
)
GroupValue: TypeAlias = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)


class GroupRecord(NamedTuple):
    """One change; without a value, the end of what the key names."""

    key: GroupKey
    value: GroupValue | None


class _Kind(NamedTuple):
    key: type[Any]
    key_type: int
    key_schema: Schema[Any]
    value_schema: Schema[Any]
    written: int
    """The version of values that are written."""


_INT16: Final = struct.Struct(">h")
_NEVER: Final = 1 << 15


def _kind(
    key: type[Any],
    key_type: int,
    value: type[Any],
    written: int = 0,
    versions: tuple[int, int] = (0, 0),
    flexible_since: int = 0,
) -> _Kind:
    return _Kind(
        key,
        key_type,
        Schema(key, versions=(0, 0), flexible_since=_NEVER),
        Schema(value, versions=versions, flexible_since=flexible_since),
        written,
    )


_KINDS: Final = (
    _kind(OffsetCommitKey, 1, OffsetCommitValue, 4, (0, 4), 4),
    _kind(GroupMetadataKey, 2, GroupMetadataValue, 3, (0, 4), 4),
    _kind(ConsumerGroupMetadataKey, 3, ConsumerGroupMetadataValue),
    _kind(ConsumerGroupMemberMetadataKey, 5, ConsumerGroupMemberMetadataValue),
    _kind(ConsumerGroupTargetAssignmentMetadataKey, 6, ConsumerGroupTargetAssignmentMetadataValue),
    _kind(ConsumerGroupTargetAssignmentMemberKey, 7, ConsumerGroupTargetAssignmentMemberValue),
    _kind(ConsumerGroupCurrentMemberAssignmentKey, 8, ConsumerGroupCurrentMemberAssignmentValue),
    _kind(ConsumerGroupRegularExpressionKey, 16, ConsumerGroupRegularExpressionValue),
)
_BY_CLASS: Final = {kind.key: kind for kind in _KINDS}
_BY_TYPE: Final = {kind.key_type: kind for kind in _KINDS} | {0: _KINDS[0]}
"""Type 0 is how brokers long ago wrote the keys of offsets."""


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    kind = _BY_CLASS[type(record.key)]
    key = _INT16.pack(kind.key_type) + kind.key_schema.encode(record.key, 0)
    if record.value is None:
        return key, None
    written = kind.written
    if isinstance(record.value, OffsetCommitValue) and record.value.expire_timestamp >= 0:
        written = EXPIRING_OFFSET_VERSION
    return key, _INT16.pack(written) + kind.value_schema.encode(record.value, written)


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """What was stored; None for a type of key that belongs to nothing we know."""
    key_type, key_body = _split(key)
    kind = _BY_TYPE.get(key_type)
    if kind is None:
        return None
    decoded = kind.key_schema.decode(key_body, 0)
    if value is None:
        return GroupRecord(decoded, None)
    version, value_body = _split(value)
    return GroupRecord(decoded, kind.value_schema.decode(value_body, version))


def _split(data: bytes) -> tuple[int, memoryview]:
    if len(data) < _INT16.size:
        raise MalformedMessage(f"{len(data)} bytes are no key or value of a coordinator")
    (number,) = _INT16.unpack_from(data)
    return number, memoryview(data)[_INT16.size :]
