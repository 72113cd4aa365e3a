"""From one protocol to the other while the members go on: online upgrade and downgrade.

A classic group of consumers becomes one of the consumer protocol when the first member of that
protocol joins; it becomes classic again when the last such member is gone.

Invariant  Nobody loses a partition by the change itself: members keep what they have, and a
           rebalance follows.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from typing import Final

from tidelog.coordinator.groups.classic.group import ClassicGroup
from tidelog.coordinator.groups.classic.member import ClassicMember
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate, tombstones
from tidelog.coordinator.groups.consumer.member import ConsumerMember
from tidelog.coordinator.groups.consumer_protocol import (
    CONSUMER,
    read_assignment,
    read_subscription,
    version_of,
    write_assignment,
)
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import IdPartition, Topics, fingerprint
from tidelog.model.config import NodeConfig
from tidelog.model.time import Now
from tidelog.protocol.stored.consumer_protocol import NamedPartitions
from tidelog.protocol.stored.groups import (
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    GroupMetadataKey,
)

UPGRADES: Final = ("bidirectional", "upgrade")
DOWNGRADES: Final = ("bidirectional", "downgrade")


class Migration:
    """Changes groups where the policy allows it."""

    def __init__(self, config: NodeConfig, topics: Topics) -> None:
        self._policy = config.group_consumer_migration_policy.lower()
        self._classic_max = config.group_max_size
        self._consumer_max = config.group_consumer_max_size
        self._topics = topics

    # -- upgrade -------------------------------------------------------------------------------

    def upgraded(self, classic: ClassicGroup, now: Now) -> ConsumerGroupUpdate | None:
        """The group with the same members in the consumer protocol; None when that cannot be."""
        allowed = self._policy in UPGRADES and len(classic.members) < self._consumer_max
        if not classic.is_empty and not (allowed and classic.uses_consumer_protocol):
            return None
        group_id = classic.group_id
        end_of_classic = GroupRecord(GroupMetadataKey(group=group_id), None)
        update = ConsumerGroupUpdate(ConsumerGroup(group_id), [end_of_classic])
        if classic.is_empty:
            return update
        for member in classic.members.values():
            metadata = self._consumer_metadata(member, classic.protocol)
            if metadata is None:
                return None
            update.write_member(member.member_id, metadata)
        topics = update.group.subscribed_topics()
        update.write(
            ConsumerGroupMetadataKey(group_id=group_id),
            ConsumerGroupMetadataValue(
                epoch=classic.generation, metadata_hash=fingerprint(self._topics, topics)
            ),
        )
        for member in classic.members.values():
            held = self._held(member)
            update.write_member_target(member.member_id, held)
            update.write_current(
                replace(
                    update.group.members[member.member_id],
                    epoch=classic.generation,
                    previous_epoch=classic.generation,
                    assigned=dict.fromkeys(held, classic.generation),
                )
            )
        update.write_target_epoch(classic.generation, now)
        return update

    def _consumer_metadata(
        self, member: ClassicMember, protocol: str | None
    ) -> ConsumerGroupMemberMetadataValue | None:
        subscription = read_subscription(member.metadata_for(protocol))
        if subscription is None:
            return None
        return ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=subscription.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=tuple(sorted(set(subscription.topics))),
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            classic_member_metadata=ClassicMemberMetadata(
                session_timeout_ms=member.session_timeout_ms,
                supported_protocols=tuple(
                    ClassicProtocol(name=name, metadata=metadata)
                    for name, metadata in member.protocols
                ),
            ),
        )

    def _held(self, member: ClassicMember) -> list[IdPartition]:
        return by_id(read_assignment(member.assignment), self._topics)

    # -- downgrade -----------------------------------------------------------------------------

    def downgraded(
        self, group: ConsumerGroup, after: ConsumerGroup, now: Now
    ) -> list[GroupRecord] | None:
        """The end of a group in which only classic members will be left, and its classic heir."""
        if (
            after.is_empty
            or not after.all_speak_classic
            or self._policy not in DOWNGRADES
            or len(after.members) > self._classic_max
        ):
            return None
        classic = ClassicGroup(group.group_id, now.wall_ms)
        classic.generation = after.epoch
        for member in after.members.values():
            classic.add(_classic_member(member), CONSUMER)
        classic.protocol = classic.chosen_protocol()
        assignments = {
            member.member_id: assignment_bytes(member, self._topics)
            for member in after.members.values()
        }
        return [*tombstones(group), classic.record(assignments, now)]


def _classic_member(member: ConsumerMember) -> ClassicMember:
    metadata, classic = member.metadata, member.classic
    return ClassicMember(
        member_id=member.member_id,
        instance_id=metadata.instance_id,
        client_id=metadata.client_id,
        client_host=metadata.client_host,
        rebalance_timeout_ms=metadata.rebalance_timeout_ms,
        session_timeout_ms=0 if classic is None else classic.session_timeout_ms,
        protocols=()
        if classic is None
        else tuple((each.name, each.metadata) for each in classic.supported_protocols),
    )


def assignment_bytes(member: ConsumerMember, topics: Topics) -> bytes:
    """What a member has, as clients of the classic protocol read it."""
    classic = member.classic
    version = 0 if classic is None else version_of(classic.supported_protocols[0].metadata)
    named = []
    for topic_id, places in groupby(sorted(member.assigned), key=lambda each: each.topic_id):
        topic = topics.with_id(topic_id)
        if topic is not None:
            partitions = tuple(place.partition for place in places)
            named.append(NamedPartitions(topic=topic.name, partitions=partitions))
    return write_assignment(tuple(named), version)


def by_id(named: tuple[NamedPartitions, ...], topics: Topics) -> list[IdPartition]:
    """Partitions by the ids of their topics, as far as those exist."""
    return [
        IdPartition(topic.topic_id, partition)
        for each in named
        if (topic := topics.named(each.topic)) is not None
        for partition in each.partitions
    ]
