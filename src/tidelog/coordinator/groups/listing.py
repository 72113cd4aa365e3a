"""ListGroups, DescribeGroups, ConsumerGroupDescribe: what people see of groups."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.group import Group
from tidelog.coordinator.groups.topics import IdPartition


class ListedGroup(NamedTuple):
    """A group in a list."""

    group_id: str
    protocol_type: str
    state: str
    kind: str


class DescribedMember(NamedTuple):
    """A member of a classic group; its metadata and assignment only while the group is stable."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class DescribedGroup(NamedTuple):
    """A classic group."""

    state: str
    protocol_type: str
    protocol: str
    members: tuple[DescribedMember, ...]


class DescribedConsumer(NamedTuple):
    """A member of a group of the consumer protocol."""

    member_id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    expression: str | None
    assigned: frozenset[IdPartition]
    target: frozenset[IdPartition]
    is_classic: bool


class DescribedConsumerGroup(NamedTuple):
    """A group of the consumer protocol."""

    state: str
    epoch: int
    target_epoch: int
    assignor: str
    members: tuple[DescribedConsumer, ...]


def listed(group: Group) -> ListedGroup:
    """A line of a list."""
    kind = "classic" if isinstance(group, ClassicGroup) else "consumer"
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, kind)


def described(group: ClassicGroup) -> DescribedGroup:
    """Everything about a classic group."""
    is_stable = group.state is ClassicGroupState.STABLE
    return DescribedGroup(
        group.state.value,
        group.protocol_type or "",
        (group.protocol or "") if is_stable else "",
        tuple(
            DescribedMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata_for(group.protocol) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        ),
    )


def described_consumers(group: ConsumerGroup, default_assignor: str) -> DescribedConsumerGroup:
    """Everything about a group of the consumer protocol."""
    return DescribedConsumerGroup(
        group.state.value,
        group.epoch,
        group.target_epoch,
        group.assignor(default_assignor),
        tuple(
            DescribedConsumer(
                member.member_id,
                member.instance_id,
                member.metadata.rack_id,
                member.epoch,
                member.metadata.client_id,
                member.metadata.client_host,
                member.metadata.subscribed_topic_names,
                member.metadata.subscribed_topic_regex,
                frozenset(member.assigned),
                group.target_of(member.member_id),
                member.classic is not None,
            )
            for member in group.members.values()
        ),
    )
