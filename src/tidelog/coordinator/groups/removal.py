"""The end of offsets and groups: on request, with their topic, or when their time is up.

Invariant  Offsets that a group still reads by are not removed, and neither are those that an open
           transaction may change.
Invariant  However much there is to forget, one decision is one batch of bounded size, and its
           reply tells whether that was all: what is left is found by the next one.
Invariant  A group goes at once with all its offsets if one batch can hold them; else it goes last.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import TypeAlias

from tidelog.coordinator.batch_limit import first_batch
from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import tombstones
from tidelog.coordinator.groups.group import Group
from tidelog.coordinator.groups.offsets import CommittedOffset, Offsets, tombstone
from tidelog.coordinator.groups.records import GroupRecord, encode_record
from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import GroupMetadataKey

Removal: TypeAlias = CoordinatorResult[GroupRecord, bool]
UNKNOWN_GROUP = Refusal(ErrorCode.group_id_not_found, "there is no such group")
NOT_EMPTY = Refusal(ErrorCode.non_empty_group, "the group has members")


def delete_offsets(
    group: Group | None, offsets: Offsets, partitions: list[TopicPartition]
) -> CoordinatorResult[GroupRecord, tuple[ErrorCode, ...]] | Refusal:
    """Forget offsets of topics that the group does not read."""
    if group is None:
        return UNKNOWN_GROUP
    if not (group.is_empty or group.uses_consumer_protocol):
        return NOT_EMPTY
    known = {*offsets.of(group.group_id), *offsets.pending_in(group.group_id)}
    outcomes: list[ErrorCode] = []
    records: list[GroupRecord] = []
    for partition in partitions:
        if group.is_subscribed_to(partition.topic):
            outcomes.append(ErrorCode.group_subscribed_to_topic)
            continue
        outcomes.append(ErrorCode.none)
        if partition in known:
            records.append(tombstone(group.group_id, partition))
    return CoordinatorResult(tuple(records), tuple(outcomes))


def delete_group(group: Group | None, offsets: Offsets, batch_bytes: int) -> Removal | Refusal:
    """Forget a group that has no members, and all its offsets."""
    if group is None:
        return UNKNOWN_GROUP
    if not group.is_empty or (
        isinstance(group, ClassicGroup) and group.state is not ClassicGroupState.EMPTY
    ):
        return NOT_EMPTY  # also while it has yet to write that everybody left
    records = list(_end_of_group(group, offsets))
    return CoordinatorResult(
        *first_batch(records, encode_record, batch_bytes, at_once=len(records))
    )


def _end_of_group(group: Group, offsets: Offsets) -> Iterator[GroupRecord]:
    for partition in sorted({*offsets.of(group.group_id), *offsets.pending_in(group.group_id)}):
        yield tombstone(group.group_id, partition)
    yield from group_tombstones(group)


def group_tombstones(group: Group) -> Iterator[GroupRecord]:
    """The end of everything that is stored of a group without members."""
    if isinstance(group, ConsumerGroup):
        yield from tombstones(group)
    else:
        yield GroupRecord(GroupMetadataKey(group=group.group_id), None)


def forget_topics(
    groups: Mapping[str, Group], offsets: Offsets, topics: Collection[str], batch_bytes: int
) -> Removal:
    """Topics were deleted: nobody reads on from an offset of theirs."""
    forgotten = (
        tombstone(group_id, partition)
        for group_id in groups
        for partition in sorted({*offsets.of(group_id), *offsets.pending_in(group_id)})
        if partition.topic in topics
    )
    return CoordinatorResult(*first_batch(forgotten, encode_record, batch_bytes))


def expire(
    groups: Mapping[str, Group], offsets: Offsets, retention_ms: int, batch_bytes: int, now: Now
) -> Removal:
    """Forget offsets past their time, and groups that have neither members nor offsets."""
    expired = _expired(groups, offsets, retention_ms, now)
    return CoordinatorResult(*first_batch(expired, encode_record, batch_bytes))


def _expired(
    groups: Mapping[str, Group], offsets: Offsets, retention_ms: int, now: Now
) -> Iterator[GroupRecord]:
    for group_id, group in groups.items():
        committed, pending = offsets.of(group_id), offsets.pending_in(group_id)
        is_over = _end_of(group, retention_ms, now)
        expired = [
            partition
            for partition, offset in committed.items()
            if partition not in pending and is_over(partition, offset)
        ]
        for partition in sorted(expired):
            yield tombstone(group_id, partition)
        if group.is_abandoned and not pending and len(expired) == len(committed):
            yield from group_tombstones(group)


def _end_of(
    group: Group, retention_ms: int, now: Now
) -> Callable[[TopicPartition, CommittedOffset], bool]:
    """Whether an offset of this group is past its time."""
    oldest = now.wall_ms - retention_ms

    def is_over(partition: TopicPartition, offset: CommittedOffset) -> bool:
        if group.is_subscribed_to(partition.topic):
            return False
        value = offset.value
        if value.expire_timestamp >= 0:
            return value.expire_timestamp <= now.wall_ms
        since = group.offset_in_use_until(value.commit_timestamp)
        return since is not None and since <= oldest

    return is_over
