"""SyncGroup (key 14, versions 0-5): a member asks what it is assigned, the leader brings it."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.groups.classic.member import SyncGroupReply
from tidelog.coordinator.groups.classic.syncing import SyncGroup
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from tidelog.security.acls import AclOperation, ResourceType

PROTOCOL_SINCE: Final = 5
"""Members say which protocol they speak (KIP-559)."""


def handle(context: GroupsContext, request: Request[SyncGroupRequest]) -> SyncGroupResponse | Later:
    """Answer once the leader's assignment is stored."""
    body = request.body
    if not context.authorization.allows(
        request, AclOperation.READ, ResourceType.GROUP, body.group_id
    ):
        return SyncGroupResponse(error_code=ErrorCode.group_authorization_failed)
    syncing = SyncGroup(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        protocol_type=body.protocol_type,
        protocol=body.protocol_name,
        assignments={each.member_id: each.assignment for each in body.assignments},
    )
    says_protocol = body.protocol_type is not None and body.protocol_name is not None
    if request.api_version >= PROTOCOL_SINCE and not says_protocol:
        return SyncGroupResponse(error_code=ErrorCode.inconsistent_group_protocol)
    if not body.group_id:
        return SyncGroupResponse(error_code=ErrorCode.invalid_group_id)
    later = request.park()

    def answer(reply: SyncGroupReply | Refusal | None) -> None:
        if isinstance(reply, Refusal):
            reply = SyncGroupReply(error=reply.code)
        if reply is not None:
            request.answer(_response(reply))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.sync(syncing, answer, request.now),
        answer,
    )
    return later


def _response(reply: SyncGroupReply) -> SyncGroupResponse:
    return SyncGroupResponse(
        error_code=reply.error,
        protocol_type=reply.protocol_type,
        protocol_name=reply.protocol,
        assignment=reply.assignment,
    )
