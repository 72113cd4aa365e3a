"""SyncGroup, Heartbeat, LeaveGroup: what members of a classic group do between joins.

Invariant  An assignment is stored before anybody is told of it, and every member is given the
           same one however often it asks.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.classic.member import SyncGroupReply
from tidelog.coordinator.groups.classic.rebalance import Rebalance
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.result import Answer, CoordinatorResult, LateReply
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now

SyncGroupResult: TypeAlias = CoordinatorResult[GroupRecord, SyncGroupReply | None]
"""Without a reply, the asker waits for the leader."""


class SyncGroup(NamedTuple):
    """A member that asks for its assignment; the leader brings everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class LeavingMember(NamedTuple):
    """A member that goes, or that is sent away by its instance id."""

    member_id: str
    instance_id: str | None


class ClassicMembership:
    """The life of members within a generation."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    # -- syncing -------------------------------------------------------------------------------

    def sync(
        self, group: ClassicGroup, request: SyncGroup, answer: Answer[SyncGroupReply], now: Now
    ) -> SyncGroupResult:
        """Give a member its assignment once the leader has brought it."""
        error = _sync_refused(group, request)
        if error is not None:
            return CoordinatorResult((), SyncGroupReply(error=error))
        member = group.members[request.member_id]
        self._rebalance.synced(group, request.member_id)
        if group.state is ClassicGroupState.STABLE:
            return CoordinatorResult((), _assigned(group, member.assignment))
        if request.member_id != group.leader:
            overtaken: tuple[LateReply, ...] = ()
            if member.awaits_sync is not None:
                reply = SyncGroupReply(error=ErrorCode.rebalance_in_progress)
                overtaken = (LateReply(member.awaits_sync, reply),)
            member.awaits_sync = answer
            return CoordinatorResult((), None, overtaken)
        return self._assign(group, request, now)

    def _assign(self, group: ClassicGroup, request: SyncGroup, now: Now) -> SyncGroupResult:
        late = []
        for member in group.members.values():
            if member.awaits_sync is not None or member.member_id == request.member_id:
                self._rebalance.heard_of(group, member, now)
            if member.awaits_sync is not None:
                assignment = request.assignments.get(member.member_id, b"")
                late.append(LateReply(member.awaits_sync, _assigned(group, assignment)))
                member.awaits_sync = None
        return CoordinatorResult(
            (group.record(request.assignments, now),),
            _assigned(group, request.assignments.get(request.member_id, b"")),
            tuple(late),
        )

    # -- heartbeats ----------------------------------------------------------------------------

    def heartbeat(
        self,
        group: ClassicGroup,
        member_id: str,
        instance_id: str | None,
        generation: int,
        now: Now,
    ) -> ErrorCode:
        """A member lives; it hears whether it must join again."""
        unfit = group.unfit_member(member_id, instance_id)
        if unfit is not None:
            return unfit
        if generation != group.generation:
            return ErrorCode.illegal_generation
        self._rebalance.heard_of(group, group.members[member_id], now)
        if group.state is ClassicGroupState.PREPARING:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    # -- leaving -------------------------------------------------------------------------------

    def leave(
        self, group: ClassicGroup, leavers: list[LeavingMember], now: Now
    ) -> CoordinatorResult[GroupRecord, tuple[ErrorCode, ...]]:
        """Let members go, each for itself; the others rebalance once."""
        errors: list[ErrorCode] = []
        leaving: list[str] = []
        for leaver in leavers:
            member_id = leaver.member_id
            if not member_id and leaver.instance_id is not None:
                member_id = group.static_ids.get(leaver.instance_id, "")
            unfit = None
            if member_id not in group.pending_joins:
                unfit = group.unfit_member(member_id, leaver.instance_id)
            if unfit is None and member_id in leaving:
                unfit = ErrorCode.unknown_member_id
            if unfit is None:
                leaving.append(member_id)
            errors.append(unfit or ErrorCode.none)
        if not leaving:
            return CoordinatorResult((), tuple(errors))
        step = self._rebalance.members_left(group, leaving, now)
        return CoordinatorResult(step.records, tuple(errors), step.late)


def _sync_refused(group: ClassicGroup, request: SyncGroup) -> ErrorCode | None:
    unfit = group.unfit_member(request.member_id, request.instance_id)
    if unfit is not None:
        return unfit
    if request.generation != group.generation:
        return ErrorCode.illegal_generation
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return ErrorCode.inconsistent_group_protocol
    if request.protocol is not None and request.protocol != group.protocol:
        return ErrorCode.inconsistent_group_protocol
    if group.state is ClassicGroupState.PREPARING:
        return ErrorCode.rebalance_in_progress
    return None


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncGroupReply:
    return SyncGroupReply(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment
    )
