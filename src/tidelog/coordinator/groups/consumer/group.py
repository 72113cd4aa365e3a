"""A group of the consumer protocol: the coordinator assigns, members follow step by step.

    group epoch    rises when members, their subscriptions or the topics change
    target         who is to have what, computed for a group epoch, and not too often
    member epochs  how far each member has followed

Invariant  All of it is stored, and changes by replay alone.
Invariant  The order in which compaction leaves the records of different keys is no matter: what a
           member has may come before what it told.
Invariant  No partition is held by two members at once.
"""

from __future__ import annotations

from collections import Counter
from copy import copy
from dataclasses import replace
from enum import Enum
from typing import Final

from tidelog.coordinator.groups.consumer.member import NOBODY, ConsumerMember, MemberState
from tidelog.coordinator.groups.consumer_protocol import CONSUMER
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import IdPartition
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
)

NOT_LOOKED: Final = -1


class ConsumerGroupState(Enum):
    """Where a group stands; the values are what people are told."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"


class ConsumerGroup:
    """The state of one group."""

    protocol_type = CONSUMER
    uses_consumer_protocol = True

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        self.members: dict[str, ConsumerMember] = {}
        self.static_ids: dict[str, str] = {}
        self.target_epoch = 0
        self.target_wall_ms = 0
        """When the target was computed; 0 for never."""
        self.targets: dict[str, frozenset[IdPartition]] = {}
        self.holders: dict[IdPartition, str] = {}
        """Who has a partition, or has still to give it back."""
        self.resolved: dict[str, ConsumerGroupRegularExpressionValue] = {}
        """Regular expressions and the topics that they match."""
        self.topics_seen = NOT_LOOKED
        """The version of the topics that the metadata hash last agreed with; not stored."""

    def copied(self) -> ConsumerGroup:
        """A copy to replay records into before they are written."""
        copied_group = copy(self)
        copied_group.members = dict(self.members)
        copied_group.static_ids = dict(self.static_ids)
        copied_group.targets = dict(self.targets)
        copied_group.holders = dict(self.holders)
        copied_group.resolved = dict(self.resolved)
        return copied_group

    # -- questions -----------------------------------------------------------------------------

    @property
    def state(self) -> ConsumerGroupState:
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if any(not each.is_reconciled_to(self.target_epoch) for each in self.members.values()):
            return ConsumerGroupState.RECONCILING
        return ConsumerGroupState.STABLE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def is_abandoned(self) -> bool:
        return self.is_empty

    def offset_in_use_until(self, committed_ms: int) -> int | None:
        """An offset of a topic that nobody subscribes to is needed by nobody since its commit."""
        return committed_ms

    def static_member(self, instance_id: str) -> ConsumerMember | None:
        member_id = self.static_ids.get(instance_id)
        return None if member_id is None else self.members[member_id]

    def topics_of(self, member: ConsumerMember) -> frozenset[str]:
        """What a member subscribes to, by name and by regular expression."""
        names = set(member.metadata.subscribed_topic_names)
        resolved = self.resolved.get(member.metadata.subscribed_topic_regex or "")
        if resolved is not None:
            names.update(resolved.topics)
        return frozenset(names)

    def subscribed_topics(self) -> set[str]:
        """What the members subscribe to, together."""
        topics: set[str] = set()
        for member in self.members.values():
            topics |= self.topics_of(member)
        return topics

    def is_subscribed_to(self, topic: str) -> bool:
        return topic in self.subscribed_topics()

    def assignor(self, default: str) -> str:
        """The one that most members ask for."""
        asked_for = Counter(
            each.metadata.server_assignor
            for each in self.members.values()
            if each.metadata.server_assignor is not None
        )
        return asked_for.most_common(1)[0][0] if asked_for else default

    def target_of(self, member_id: str) -> frozenset[IdPartition]:
        return self.targets.get(member_id, frozenset())

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether something that the member is to have is still held by somebody."""
        return any(
            partition in self.holders
            for partition in self.target_of(member.member_id)
            if partition not in member.assigned
        )

    @property
    def all_speak_classic(self) -> bool:
        return all(member.classic is not None for member in self.members.values())

    # -- replay --------------------------------------------------------------------------------

    def replay(self, record: GroupRecord) -> None:
        """Take in a record of this group."""
        match record:
            case GroupRecord(ConsumerGroupMetadataKey(), ConsumerGroupMetadataValue() as value):
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case GroupRecord(
                ConsumerGroupMemberMetadataKey() as key,
                ConsumerGroupMemberMetadataValue() | None as value,
            ):
                self._replay_member(key.member_id, value)
            case GroupRecord(
                ConsumerGroupTargetAssignmentMetadataKey(),
                ConsumerGroupTargetAssignmentMetadataValue() as value,
            ):
                self.target_epoch = value.assignment_epoch
                self.target_wall_ms = value.assignment_timestamp
            case GroupRecord(
                ConsumerGroupTargetAssignmentMemberKey() as key,
                ConsumerGroupTargetAssignmentMemberValue() | None as value,
            ):
                self._replay_target(key.member_id, value)
            case GroupRecord(
                ConsumerGroupCurrentMemberAssignmentKey() as key,
                ConsumerGroupCurrentMemberAssignmentValue() | None as value,
            ):
                self._replay_current(key.member_id, value)
            case GroupRecord(
                ConsumerGroupRegularExpressionKey() as key,
                ConsumerGroupRegularExpressionValue() | None as value,
            ):
                if value is None:
                    self.resolved.pop(key.regular_expression, None)
                else:
                    self.resolved[key.regular_expression] = value

    def _replay_member(
        self, member_id: str, value: ConsumerGroupMemberMetadataValue | None
    ) -> None:
        known = self.members.get(member_id)
        if value is None:
            if known is not None:
                self._release(known)
                del self.members[member_id]
                if self.static_ids.get(known.instance_id or "") == member_id:
                    del self.static_ids[known.instance_id or ""]
            return
        if known is None:
            self.members[member_id] = ConsumerMember(member_id=member_id, metadata=value)
        else:
            self.members[member_id] = replace(known, metadata=value)
        if value.instance_id is not None:
            self.static_ids[value.instance_id] = member_id

    def _replay_target(
        self, member_id: str, value: ConsumerGroupTargetAssignmentMemberValue | None
    ) -> None:
        if value is None:
            self.targets.pop(member_id, None)
            return
        self.targets[member_id] = frozenset(
            IdPartition(topic.topic_id, partition)
            for topic in value.topic_partitions
            for partition in topic.partitions
        )

    def _replay_current(
        self, member_id: str, value: ConsumerGroupCurrentMemberAssignmentValue | None
    ) -> None:
        known = self.members.get(member_id)
        if known is None:
            if value is None:
                return
            known = ConsumerMember(member_id=member_id, metadata=NOBODY)
        self._release(known)
        if value is None:
            self.members[member_id] = ConsumerMember(
                member_id=member_id, metadata=known.metadata, state=MemberState.STABLE
            )
            return
        self.members[member_id] = member = known.with_current(value)
        for partition in member.held:
            self.holders[partition] = member_id

    def _release(self, member: ConsumerMember) -> None:
        for partition in member.held:
            if self.holders.get(partition) == member.member_id:
                del self.holders[partition]
