"""SyncGroup, Heartbeat, LeaveGroup: what members of a classic group do between joins.

Invariant  An assignment is stored before anybody is told of it, and every member is given the
           same one however often it asks.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

from tidelog.coordinator.decision import Answer, Decision, LateReply
from tidelog.coordinator.groups.classic.group import ClassicGroup, State
from tidelog.coordinator.groups.classic.rebalance import Rebalance
from tidelog.coordinator.groups.classic.replies import SyncReply
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now

Syncing: TypeAlias = Decision[GroupRecord, SyncReply | None]
"""Without a reply, the asker waits for the leader."""


class SyncWish(NamedTuple):
    """A member that asks for its assignment; the leader brings everybody's."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class Leaver(NamedTuple):
    """A member that goes, or that is sent away by its instance id."""

    member_id: str
    instance_id: str | None


class Membership:
    """The life of members within a generation."""

    def __init__(self, rebalance: Rebalance) -> None:
        self._rebalance = rebalance

    # -- syncing -------------------------------------------------------------------------------

    def sync(self, group: ClassicGroup, wish: SyncWish, answer: Answer, now: Now) -> Syncing:
        """Give a member its assignment once the leader has brought it."""
        error = _sync_refused(group, wish)
        if error is not None:
            return Decision((), SyncReply(error=error))
        member = group.members[wish.member_id]
        self._rebalance.synced(group, wish.member_id)
        if group.state is State.STABLE:
            return Decision((), _assigned(group, member.assignment))
        if wish.member_id != group.leader:
            overtaken: tuple[LateReply, ...] = ()
            if member.awaits_sync is not None:
                reply = SyncReply(error=ErrorCode.rebalance_in_progress)
                overtaken = (LateReply(member.awaits_sync, reply),)
            member.awaits_sync = answer
            return Decision((), None, overtaken)
        return self._assign(group, wish, now)

    def _assign(self, group: ClassicGroup, wish: SyncWish, now: Now) -> Syncing:
        late = []
        for member in group.members.values():
            if member.awaits_sync is not None or member.member_id == wish.member_id:
                self._rebalance.heard_of(group, member, now)
            if member.awaits_sync is not None:
                assignment = wish.assignments.get(member.member_id, b"")
                late.append(LateReply(member.awaits_sync, _assigned(group, assignment)))
                member.awaits_sync = None
        return Decision(
            (group.record(wish.assignments, now),),
            _assigned(group, wish.assignments.get(wish.member_id, b"")),
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
        if group.state is State.PREPARING:
            return ErrorCode.rebalance_in_progress
        return ErrorCode.none

    # -- leaving -------------------------------------------------------------------------------

    def leave(
        self, group: ClassicGroup, leavers: list[Leaver], now: Now
    ) -> Decision[GroupRecord, tuple[ErrorCode, ...]]:
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
            return Decision((), tuple(errors))
        step = self._rebalance.members_left(group, leaving, now)
        return Decision(step.records, tuple(errors), step.late)


def _sync_refused(group: ClassicGroup, wish: SyncWish) -> ErrorCode | None:
    unfit = group.unfit_member(wish.member_id, wish.instance_id)
    if unfit is not None:
        return unfit
    if wish.generation != group.generation:
        return ErrorCode.illegal_generation
    if wish.protocol_type is not None and wish.protocol_type != group.protocol_type:
        return ErrorCode.inconsistent_group_protocol
    if wish.protocol is not None and wish.protocol != group.protocol:
        return ErrorCode.inconsistent_group_protocol
    if group.state is State.PREPARING:
        return ErrorCode.rebalance_in_progress
    return None


def _assigned(group: ClassicGroup, assignment: bytes) -> SyncReply:
    return SyncReply(
        protocol_type=group.protocol_type, protocol=group.protocol, assignment=assignment
    )
