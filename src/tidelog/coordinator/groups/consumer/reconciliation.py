"""How a member comes from what it has to what it is to have.

STABLE                 it has what some target gave it
UNREVOKED_PARTITIONS   it must give partitions back, and stays in its epoch until it has
UNRELEASED_PARTITIONS  it follows the target, but others have not given everything back

"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.member import ConsumerMember, MemberState
from tidelog.coordinator.groups.topics import IdPartition


def reconcile(
    group: ConsumerGroup, member: ConsumerMember, owned: Collection[IdPartition] | None
) -> ConsumerMember:
    """One step towards the group's target; `owned` is what the member says it has, if it does."""
    if member.is_reconciled_to(group.target_epoch):
        return member
    if member.state is MemberState.UNREVOKED_PARTITIONS:
        if _still_owns(member.to_revoke, owned):
            return member
        return _next(group, member, member.epoch + 1, owned)
    return _next(group, member, member.epoch, owned)


def _still_owns(revoked: Collection[IdPartition], owned: Collection[IdPartition] | None) -> bool:
    """Silence is no proof that something was given back."""
    return owned is None or any(partition in revoked for partition in owned)


def _next(
    group: ConsumerGroup,
    member: ConsumerMember,
    epoch: int,
    owned: Collection[IdPartition] | None,
) -> ConsumerMember:
    target = group.target_of(member.member_id)
    kept = {each: given for each, given in member.assigned.items() if each in target}
    revoked = {each: given for each, given in member.assigned.items() if each not in target}
    if revoked and _still_owns(revoked, owned):
        return replace(
            member.moved_to(epoch),
            state=MemberState.UNREVOKED_PARTITIONS,
            assigned=kept,
            to_revoke=revoked,
        )
    missing = [each for each in sorted(target) if each not in kept]
    free = [each for each in missing if each not in group.holders]
    return replace(
        member.moved_to(group.target_epoch),
        state=MemberState.STABLE
        if len(free) == len(missing)
        else MemberState.UNRELEASED_PARTITIONS,
        assigned=kept | dict.fromkeys(free, group.target_epoch),
        to_revoke={},
    )
