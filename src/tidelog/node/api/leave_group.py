"""LeaveGroup (key 13, versions 0-5): members go, or are sent away by their instance ids."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordinator.groups.classic.syncing import LeavingMember
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

MANY_SINCE: Final = 3


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Let each of them go."""
    body = request.body
    leavers = _leavers(request)
    if not body.group_id:
        return {"error_code": ErrorCode.invalid_group_id, "members": []}
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        request.answer(_fields(request, leavers, outcome))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.leave(body.group_id, leavers, request.now),
        answer,
    )
    return later


def _leavers(request: Request[Any]) -> list[LeavingMember]:
    if request.api_version < MANY_SINCE:
        return [LeavingMember(request.body.member_id, None)]
    return [
        LeavingMember(member.member_id, field(member, "group_instance_id", None))
        for member in request.body.members
    ]


def _fields(
    request: Request[Any], leavers: list[LeavingMember], outcome: tuple[ErrorCode, ...] | Refusal
) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code, "members": []}
    if request.api_version < MANY_SINCE:
        return {"error_code": outcome[0]}
    return {
        "error_code": ErrorCode.none,
        "members": [
            {
                "member_id": leaver.member_id,
                "group_instance_id": leaver.instance_id,
                "error_code": error,
            }
            for leaver, error in zip(leavers, outcome, strict=True)
        ],
    }
