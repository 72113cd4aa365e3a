"""The records of `__consumer_offsets`: every stored change of a group is one of these.

A record is a key and a value; the value None removes what the key names. On disk the key is its
type and a plainly encoded body, the value its version and a body.

Invariant  Names, fields and versions are Kafka's, so that its tools read the topic, and a log
           written by one of its brokers can be loaded.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias, get_args

from tidelog.coordinator.versioned import join_number, split_number
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.stored.groups import (
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
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

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


EXPIRING_OFFSET_VERSION: Final = 1
"""The only version that can say when a client wants its offset forgotten."""


class GroupRecord(NamedTuple):
    """One change; without a value, the end of what the key names."""

    key: GroupKey
    value: GroupValue | None


_KEYS: Final[dict[int, type[GroupKey]]] = {key.API_KEY: key for key in get_args(GroupKey)}
_VALUES: Final[dict[int, type[GroupValue]]] = {
    value.API_KEY: value for value in get_args(GroupValue)
}
_LEGACY_OFFSET_KEY: Final = 0
"""How brokers long ago wrote the keys of offsets, which are otherwise the same."""
_WRITTEN: Final = {OffsetCommitValue.API_KEY: 4, GroupMetadataValue.API_KEY: 3}
"""The versions of values that are written; of all others, it is version 0."""


def encode_record(record: GroupRecord) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored."""
    key = join_number(record.key.API_KEY, encode(record.key, 0))
    value = record.value
    if value is None:
        return key, None
    version = _WRITTEN.get(value.API_KEY, 0)
    if isinstance(value, OffsetCommitValue) and value.expire_timestamp >= 0:
        version = EXPIRING_OFFSET_VERSION
    return key, join_number(version, encode(value, version))


def decode_record(key: bytes, value: bytes | None) -> GroupRecord | None:
    """What was stored; None for a type of key that belongs to nothing we know."""
    key_type, key_body = split_number(key)
    if key_type == _LEGACY_OFFSET_KEY:
        key_type = OffsetCommitKey.API_KEY
    if key_type not in _KEYS:
        return None
    decoded = decode(_KEYS[key_type], 0, key_body)
    if value is None:
        return GroupRecord(decoded, None)
    version, value_body = split_number(value)
    return GroupRecord(decoded, decode(_VALUES[key_type], version, value_body))
