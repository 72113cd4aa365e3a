"""LeaveGroup (key 13, versions 0-5): members go, or are sent away by their instance ids."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.groups.classic.syncing import LeavingMember
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberResponse,
)
from tidelog.security.acls import AclOperation, ResourceType

MANY_SINCE: Final = 3


def handle(
    context: GroupsContext, request: Request[LeaveGroupRequest]
) -> LeaveGroupResponse | Later:
    """Let each of them go."""
    body = request.body
    if not context.authorization.allows(
        request, AclOperation.READ, ResourceType.GROUP, body.group_id
    ):
        return LeaveGroupResponse(error_code=ErrorCode.group_authorization_failed)
    leavers = _leavers(request)
    if not body.group_id:
        return LeaveGroupResponse(error_code=ErrorCode.invalid_group_id)
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        request.answer(_response(request, leavers, outcome))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.leave(body.group_id, leavers, request.now),
        answer,
    )
    return later


def _leavers(request: Request[LeaveGroupRequest]) -> list[LeavingMember]:
    if request.api_version < MANY_SINCE:
        return [LeavingMember(request.body.member_id, None)]
    return [
        LeavingMember(member.member_id, member.group_instance_id) for member in request.body.members
    ]


def _response(
    request: Request[LeaveGroupRequest],
    leavers: list[LeavingMember],
    outcome: tuple[ErrorCode, ...] | Refusal,
) -> LeaveGroupResponse:
    if isinstance(outcome, Refusal):
        return LeaveGroupResponse(error_code=outcome.code)
    if request.api_version < MANY_SINCE:
        return LeaveGroupResponse(error_code=outcome[0])
    return LeaveGroupResponse(
        members=[
            MemberResponse(
                member_id=leaver.member_id,
                group_instance_id=leaver.instance_id,
                error_code=error,
            )
            for leaver, error in zip(leavers, outcome, strict=True)
        ]
    )
