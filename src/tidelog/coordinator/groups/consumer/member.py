"""A member of a group of the consumer protocol (KIP-848).

Invariant  A member's epoch tells which target assignment it follows. It rises only when the member
           holds nothing that the target takes away.
Invariant  A partition is given to a member only while nobody else holds it; what a member must
           give back it still holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import groupby
from typing import Final

from tidelog.coordinator.groups.topics import IdPartition
from tidelog.protocol.stored.groups import (
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    CurrentPartitions,
    TargetPartitions,
)

JOINING_EPOCH: Final = 0
LEAVING_EPOCH: Final = -1
AWAY_EPOCH: Final = -2
"""Of a static member that will be back."""
NOBODY: Final = ConsumerGroupMemberMetadataValue(client_id="", client_host="")
"""Of a member that has told nothing."""


class MemberState(IntEnum):
    """How far a member is on its way to the target."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """What a member told, and what it has."""

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue
    epoch: int = JOINING_EPOCH
    previous_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Mapping[IdPartition, int] = field(default_factory=dict)
    """Partitions, and the member epochs in which they were given."""
    to_revoke: Mapping[IdPartition, int] = field(default_factory=dict)

    @property
    def instance_id(self) -> str | None:
        return self.metadata.instance_id

    @property
    def classic(self) -> ClassicMemberMetadata | None:
        """What is known of a member that speaks the classic protocol."""
        known = self.metadata.classic_member_metadata
        return known if known is not None and known.supported_protocols else None

    @property
    def held(self) -> Iterable[IdPartition]:
        """Everything that nobody else may have."""
        return (*self.assigned, *self.to_revoke)

    def is_reconciled_to(self, target_epoch: int) -> bool:
        return self.state is MemberState.STABLE and self.epoch == target_epoch

    def moved_to(self, epoch: int) -> ConsumerMember:
        """In another epoch, with the one before remembered."""
        if epoch == self.epoch:
            return self
        return replace(self, epoch=epoch, previous_epoch=self.epoch)

    def with_current(self, stored: ConsumerGroupCurrentMemberAssignmentValue) -> ConsumerMember:
        """As the log tells of it."""
        return replace(
            self,
            epoch=stored.member_epoch,
            previous_epoch=stored.previous_member_epoch,
            state=MemberState(stored.state),
            assigned=_flat(stored.assigned_partitions, stored.member_epoch),
            to_revoke=_flat(stored.partitions_pending_revocation, stored.member_epoch),
        )

    def current(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """As the log tells of it."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.epoch,
            previous_member_epoch=self.previous_epoch,
            state=int(self.state),
            assigned_partitions=_by_topic(self.assigned),
            partitions_pending_revocation=_by_topic(self.to_revoke),
        )


def target_by_topic(partitions: Iterable[IdPartition]) -> tuple[TargetPartitions, ...]:
    """Partitions as a target is stored."""
    return tuple(
        TargetPartitions(topic_id=topic_id, partitions=tuple(each.partition for each in group))
        for topic_id, group in groupby(sorted(partitions), key=lambda each: each.topic_id)
    )


def _by_topic(partitions: Mapping[IdPartition, int]) -> tuple[CurrentPartitions, ...]:
    topics = []
    for topic_id, group in groupby(sorted(partitions), key=lambda each: each.topic_id):
        members = list(group)
        topics.append(
            CurrentPartitions(
                topic_id=topic_id,
                partitions=tuple(each.partition for each in members),
                assignment_epochs=tuple(partitions[each] for each in members),
            )
        )
    return tuple(topics)


def _flat(stored: Iterable[CurrentPartitions], epoch: int) -> dict[IdPartition, int]:
    """Where no epochs are stored, the member's own is the best guess."""
    return {
        IdPartition(topic.topic_id, partition): given
        for topic in stored
        for partition, given in zip(
            topic.partitions,
            topic.assignment_epochs or (epoch,) * len(topic.partitions),
            strict=True,
        )
    }
