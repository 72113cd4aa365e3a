"""Heartbeat (key 12, versions 0-4): a member of a classic group lives."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from tidelog.security.acls import AclOperation, ResourceType


def handle(context: GroupsContext, request: Request[HeartbeatRequest]) -> HeartbeatResponse | Later:
    """Note it, and say whether the member must join again."""
    body = request.body
    if not context.authorization.allows(
        request, AclOperation.READ, ResourceType.GROUP, body.group_id
    ):
        return HeartbeatResponse(error_code=ErrorCode.group_authorization_failed)
    if not body.group_id:
        return HeartbeatResponse(error_code=ErrorCode.invalid_group_id)
    later = request.park()

    def answer(outcome: ErrorCode | Refusal) -> None:
        error = outcome.code if isinstance(outcome, Refusal) else outcome
        if error is ErrorCode.coordinator_load_in_progress:
            error = ErrorCode.none  # sessions begin anew when the coordinator has loaded
        request.answer(HeartbeatResponse(error_code=error))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.heartbeat(
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id,
            request.now,
        ),
        answer,
    )
    return later
