"""A group of either protocol, and the way from the records of `__consumer_offsets` to it.

Invariant  A record of one protocol never touches a group of the other one: what ends a classic
           group leaves the consumer group alone that it became.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.offsets import Offsets
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.result import CoordinatorResult, ProducerIdAndEpoch
from tidelog.protocol.stored.groups import (
    ConsumerGroupMetadataKey,
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)

Group: TypeAlias = ClassicGroup | ConsumerGroup
GroupStep: TypeAlias = CoordinatorResult[GroupRecord, None]
"""What a coordinator does with a group on its own account: nobody waits for a reply."""
NOTHING: Final[GroupStep] = CoordinatorResult((), None)


def replay(
    groups: dict[str, Group],
    offsets: Offsets,
    record: GroupRecord,
    producer: ProducerIdAndEpoch | None,
) -> None:
    """Take in a record that is in the log now."""
    key, value = record
    if isinstance(key, OffsetCommitKey):
        if value is None or isinstance(value, OffsetCommitValue):
            if value is not None and key.group not in groups:
                groups[key.group] = ClassicGroup(key.group)
            offsets.replay(key, value, producer)
    elif isinstance(key, GroupMetadataKey):
        _replay_classic(groups, key.group, value if isinstance(value, GroupMetadataValue) else None)
    else:
        _replay_consumer(groups, key.group_id, record)


def _replay_classic(
    groups: dict[str, Group], group_id: str, value: GroupMetadataValue | None
) -> None:
    known = groups.get(group_id)
    if value is None:
        if isinstance(known, ClassicGroup):
            del groups[group_id]
        return
    if not isinstance(known, ClassicGroup):
        known = groups[group_id] = ClassicGroup(group_id)
    known.restore(value)


def _replay_consumer(groups: dict[str, Group], group_id: str, record: GroupRecord) -> None:
    known = groups.get(group_id)
    if not isinstance(known, ConsumerGroup):
        if record.value is None:
            return
        known = groups[group_id] = ConsumerGroup(group_id)
    if record.value is None and isinstance(record.key, ConsumerGroupMetadataKey):
        del groups[group_id]
    else:
        known.replay(record)
