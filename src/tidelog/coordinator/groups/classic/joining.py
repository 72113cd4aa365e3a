"""JoinGroup: how somebody becomes a member of a classic group, or comes back to it.

Invariant  From version 4 on a dynamic member is let in only with an id it was given before, so
           that clients which never hear the answer leave no members behind (KIP-394).
Invariant  A static member that comes back takes its old place under a new id, without a rebalance
           while the group is stable and its protocol stays the same (KIP-345).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.classic.member import ClassicMember, JoinGroupReply, Protocols
from tidelog.coordinator.groups.classic.rebalance import (
    NEW_MEMBER_JOIN_MS,
    Rebalance,
    fenced,
    joined,
)
from tidelog.coordinator.groups.group import GroupStep
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.result import Answer, CoordinatorResult, LateReply
from tidelog.model.config import NodeConfig
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now

ID_REQUIRED_SINCE: Final = 4
SKIPS_ASSIGNMENT_SINCE: Final = 9
JoinGroupResult: TypeAlias = CoordinatorResult[GroupRecord, JoinGroupReply | None]
"""Without a reply, the asker waits for the others."""


class JoinGroup(NamedTuple):
    """What somebody says who wants to join."""

    version: int
    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    may_describe: Callable[[str], bool] | None = None
    """Of topics that expressions of other members match, those that count; None for all."""


class Joins:
    """Lets members in."""

    def __init__(self, rebalance: Rebalance, config: NodeConfig, entropy: Entropy) -> None:
        self._rebalance = rebalance
        self._max_size = config.group_max_size
        self._entropy = entropy

    def join(
        self, group: ClassicGroup, request: JoinGroup, answer: Answer[JoinGroupReply], now: Now
    ) -> JoinGroupResult:
        """Join for the first time, or again."""
        if not self._has_room_for(group, request.member_id):
            group.remove(request.member_id)
            return _refused(ErrorCode.group_max_size_reached, "")
        if not group.supports(request.protocol_type, request.protocols):
            return _refused(ErrorCode.inconsistent_group_protocol, request.member_id)
        if not request.member_id:
            return self._join_new(group, request, answer, now)
        if request.member_id in group.pending_joins:
            return _waits(self._add(group, request, request.member_id, answer, now))
        unfit = group.unfit_member(request.member_id, request.instance_id)
        if unfit is not None:
            return _refused(unfit, request.member_id)
        return self._join_again(group, request, answer, now)

    def _has_room_for(self, group: ClassicGroup, member_id: str) -> bool:
        """Whoever is in may stay in; of those who rejoin, the first ones find room."""
        if group.state is ClassicGroupState.EMPTY:
            return True
        member = group.members.get(member_id)
        if group.state is ClassicGroupState.PREPARING:
            if member is not None and member.awaits_join is not None:
                return True
            return sum(1 for _ in group.awaiting_join()) < self._max_size
        return member is not None or len(group.members) < self._max_size

    # -- for the first time --------------------------------------------------------------------

    def _join_new(
        self, group: ClassicGroup, request: JoinGroup, answer: Answer[JoinGroupReply], now: Now
    ) -> JoinGroupResult:
        member_id = f"{request.instance_id or request.client_id}-{self._entropy.uuid()}"
        if request.instance_id is not None:
            known = group.static_ids.get(request.instance_id)
            if known is not None:
                return self._replace(group, request, group.members[known], member_id, answer, now)
        elif request.version >= ID_REQUIRED_SINCE:
            self._rebalance.expects_join(group, member_id, request.session_timeout_ms, now)
            return _refused(ErrorCode.member_id_required, member_id)
        return _waits(self._add(group, request, member_id, answer, now))

    def _add(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member_id: str,
        answer: Answer[JoinGroupReply],
        now: Now,
    ) -> GroupStep:
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocols=request.protocols,
            awaits_join=answer,
            is_new=True,
        )
        if group.state is ClassicGroupState.PREPARING and group.was_empty:
            group.got_new_member = True
        group.add(member, request.protocol_type)
        self._rebalance.heard_of(group, member, now, NEW_MEMBER_JOIN_MS)
        return self._rebalance.prepare_or_complete(group, now)

    def _replace(
        self,
        group: ClassicGroup,
        request: JoinGroup,
        member: ClassicMember,
        new_id: str,
        answer: Answer[JoinGroupReply],
        now: Now,
    ) -> JoinGroupResult:
        late = tuple(fenced(member))
        old_leader = group.leader
        self._rebalance.forget_session(group, member.member_id)
        group.replace_static(member, new_id)
        _update(member, request)
        self._rebalance.heard_of(group, member, now)
        if group.state is ClassicGroupState.STABLE and group.chosen_protocol() == group.protocol:
            assignments = {each.member_id: each.assignment for each in group.members.values()}
            record = group.record(assignments, now)
            return CoordinatorResult((record,), _rejoined(group, request, new_id, old_leader), late)
        member.awaits_join = answer
        return _waits(self._rebalance.prepare_or_complete(group, now), late)

    # -- again ---------------------------------------------------------------------------------

    def _join_again(
        self, group: ClassicGroup, request: JoinGroup, answer: Answer[JoinGroupReply], now: Now
    ) -> JoinGroupResult:
        member = group.members[request.member_id]
        is_same = member.protocols == request.protocols
        if group.state is ClassicGroupState.COMPLETING and is_same:
            return CoordinatorResult((), joined(group, member.member_id))
        if group.state is ClassicGroupState.STABLE and is_same and group.leader != member.member_id:
            return CoordinatorResult((), joined(group, member.member_id))
        late: tuple[LateReply, ...] = ()
        if member.awaits_join is not None:
            overtaken = JoinGroupReply(
                error=ErrorCode.rebalance_in_progress, member_id=member.member_id
            )
            late = (LateReply(member.awaits_join, overtaken),)
        _update(member, request)
        member.awaits_join = answer
        return _waits(self._rebalance.prepare_or_complete(group, now), late)


def _rejoined(
    group: ClassicGroup, request: JoinGroup, member_id: str, old_leader: str | None
) -> JoinGroupReply:
    """What a static member is told that takes its place again in a stable group.

    A leader of old versions would assign anew if it knew that it leads (KIP-814).
    """
    if request.version >= SKIPS_ASSIGNMENT_SINCE:
        return joined(group, member_id, skip_assignment=group.leader == member_id)
    return JoinGroupReply(
        member_id=member_id,
        generation=group.generation,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=old_leader or "",
    )


def _update(member: ClassicMember, request: JoinGroup) -> None:
    member.protocols = request.protocols
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms


def _waits(step: GroupStep, late: tuple[LateReply, ...] = ()) -> JoinGroupResult:
    return CoordinatorResult(step.records, None, (*late, *step.late))


def _refused(error: ErrorCode, member_id: str) -> JoinGroupResult:
    return CoordinatorResult((), JoinGroupReply(error=error, member_id=member_id))
