"""ListGroups and DescribeGroups: what people see of groups."""

from __future__ import annotations

from typing import NamedTuple

from tidelog.coordinator.groups.classic.group import ClassicGroup, State
from tidelog.coordinator.groups.group import Group


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


def listed(group: Group) -> ListedGroup:
    """A line of a list."""
    return ListedGroup(group.group_id, group.protocol_type or "", group.state.value, "Classic")


def described(group: ClassicGroup) -> DescribedGroup:
    """Everything about a classic group."""
    is_stable = group.state is State.STABLE
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
