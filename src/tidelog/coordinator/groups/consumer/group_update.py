"""A group as it will be: records are replayed into a copy while they are being decided.

Invariant  What a decision builds on is what the next coordinator will read from the log.
"""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.coordinator.groups.consumer.assignors import ASSIGNORS, Subscriber
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.member import ConsumerMember, target_by_topic
from tidelog.coordinator.groups.records import GroupKey, GroupRecord, GroupValue
from tidelog.coordinator.groups.topics import IdPartition, Topics, fingerprint
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
)


class ConsumerGroupUpdate:
    """Decides records one after the other, each in view of those before."""

    def __init__(self, group: ConsumerGroup, already: Iterable[GroupRecord] = ()) -> None:
        """`already` are records that stand before the group's own."""
        self.group = group
        self.records: list[GroupRecord] = list(already)
        self._is_copy = False

    def write(self, key: GroupKey, value: GroupValue | None) -> None:
        """Decide one more record."""
        if not self._is_copy:
            self.group = self.group.copied()
            self._is_copy = True
        record = GroupRecord(key, value)
        self.records.append(record)
        self.group.replay(record)

    # -- members -------------------------------------------------------------------------------

    def write_member(self, member_id: str, metadata: ConsumerGroupMemberMetadataValue) -> bool:
        """Store what a member tells about itself; whether that is news."""
        known = self.group.members.get(member_id)
        if known is not None and known.metadata == metadata:
            return False
        key = ConsumerGroupMemberMetadataKey(group_id=self.group.group_id, member_id=member_id)
        self.write(key, metadata)
        return True

    def write_current(self, member: ConsumerMember) -> None:
        """Store what a member has, if that is news."""
        if self.group.members[member.member_id] != member:
            key = ConsumerGroupCurrentMemberAssignmentKey(
                group_id=self.group.group_id, member_id=member.member_id
            )
            self.write(key, member.current())

    def remove_member(self, member_id: str) -> None:
        """Forget a member, what it was to have, and what it had."""
        group_id = self.group.group_id
        member = {"group_id": group_id, "member_id": member_id}
        self.write(ConsumerGroupCurrentMemberAssignmentKey(**member), None)
        self.write(ConsumerGroupTargetAssignmentMemberKey(**member), None)
        self.write(ConsumerGroupMemberMetadataKey(**member), None)

    # -- the group -----------------------------------------------------------------------------

    def raise_epoch(self, topics: Topics) -> None:
        """Members, subscriptions or topics changed: another target is needed."""
        self.write(
            ConsumerGroupMetadataKey(group_id=self.group.group_id),
            ConsumerGroupMetadataValue(
                epoch=self.group.epoch + 1,
                metadata_hash=fingerprint(topics, self.group.subscribed_topics()),
            ),
        )

    def note_topics(self, topics: Topics) -> bool:
        """Whether topics that the group reads have changed since anybody looked.

        A look that finds something new is not noted: what follows from it may never be written,
        and the next look finds the new metadata hash if it was.
        """
        if self.group.topics_seen == topics.version:
            return False
        if fingerprint(topics, self.group.subscribed_topics()) != self.group.metadata_hash:
            return True
        self.group.topics_seen = topics.version
        return False

    def write_target(self, topics: Topics, default_assignor: str, now: Now) -> None:
        """Compute who is to have what in the present group epoch, and store what is new in it."""
        group = self.group
        assign = ASSIGNORS[group.assignor(default_assignor)]
        members = [_subscriber(group, member, topics) for member in group.members.values()]
        for member_id, places in sorted(assign(members).items()):
            if member_id not in group.targets or group.targets[member_id] != places:
                self.write_member_target(member_id, places)
        self.write_target_epoch(self.group.epoch, now)

    def write_member_target(self, member_id: str, places: Iterable[IdPartition]) -> None:
        key = ConsumerGroupTargetAssignmentMemberKey(
            group_id=self.group.group_id, member_id=member_id
        )
        value = ConsumerGroupTargetAssignmentMemberValue(topic_partitions=target_by_topic(places))
        self.write(key, value)

    def write_target_epoch(self, epoch: int, now: Now) -> None:
        self.write(
            ConsumerGroupTargetAssignmentMetadataKey(group_id=self.group.group_id),
            ConsumerGroupTargetAssignmentMetadataValue(
                assignment_epoch=epoch, assignment_timestamp=now.wall_ms
            ),
        )


def _subscriber(group: ConsumerGroup, member: ConsumerMember, topics: Topics) -> Subscriber:
    known = (topics.named(name) for name in sorted(group.topics_of(member)))
    return Subscriber(
        member.member_id,
        member.instance_id,
        tuple(topic for topic in known if topic is not None),
        group.target_of(member.member_id),
    )


def tombstones(group: ConsumerGroup) -> list[GroupRecord]:
    """The end of everything that is stored of a group."""
    update = ConsumerGroupUpdate(group)
    for member_id in list(group.members):
        update.remove_member(member_id)
    for expression in list(group.resolved):
        update.write(
            ConsumerGroupRegularExpressionKey(
                group_id=group.group_id, regular_expression=expression
            ),
            None,
        )
    update.write(ConsumerGroupTargetAssignmentMetadataKey(group_id=group.group_id), None)
    update.write(ConsumerGroupMetadataKey(group_id=group.group_id), None)
    return update.records
