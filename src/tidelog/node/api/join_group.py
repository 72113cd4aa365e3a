"""JoinGroup (key 11, versions 0-9): become a member of a classic group, and wait for the others."""

from __future__ import annotations

from typing import Final

from tidelog.coordinator.groups.classic.joining import JoinGroup
from tidelog.coordinator.groups.classic.member import JoinGroupReply
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from tidelog.security.acls import AclOperation, ResourceType

REBALANCE_TIMEOUT_SINCE: Final = 1
NAMELESS_PROTOCOL_SINCE: Final = 7


def handle(context: GroupsContext, request: Request[JoinGroupRequest]) -> JoinGroupResponse | Later:
    """Join; the answer comes when the generation begins."""
    joining = _joining(request)
    if context.authorization.authorizer is not None:
        joining = joining._replace(
            may_describe=lambda topic: context.authorization.allows(
                request, AclOperation.DESCRIBE, ResourceType.TOPIC, topic, quietly=True
            )
        )
    error = _refused(context, request, joining)
    if error is not None:
        return _response(request, JoinGroupReply(error=error, member_id=joining.member_id))
    later = request.park()

    def answer(reply: JoinGroupReply | Refusal | None) -> None:
        if isinstance(reply, Refusal):
            reply = JoinGroupReply(error=reply.code, member_id=joining.member_id)
        if reply is not None:
            request.answer(_response(request, reply))

    context.groups.ask(
        request.now,
        joining.group_id,
        lambda shard: shard.join(joining, answer, request.now),
        answer,
    )
    return later


def _joining(request: Request[JoinGroupRequest]) -> JoinGroup:
    body = request.body
    rebalance_timeout_ms = body.rebalance_timeout_ms
    if request.api_version < REBALANCE_TIMEOUT_SINCE:
        rebalance_timeout_ms = body.session_timeout_ms
    return JoinGroup(
        version=request.api_version,
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        client_id=request.client_id or "",
        client_host=f"/{request.client_host}",
        session_timeout_ms=body.session_timeout_ms,
        rebalance_timeout_ms=rebalance_timeout_ms,
        protocol_type=body.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
    )


def _refused(
    context: GroupsContext, request: Request[JoinGroupRequest], joining: JoinGroup
) -> ErrorCode | None:
    group_id = joining.group_id
    if not context.authorization.allows(request, AclOperation.READ, ResourceType.GROUP, group_id):
        return ErrorCode.group_authorization_failed
    if not joining.group_id:
        return ErrorCode.invalid_group_id
    config = context.cluster.config
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= joining.session_timeout_ms <= longest:
        return ErrorCode.invalid_session_timeout
    return None


def _response(request: Request[JoinGroupRequest], reply: JoinGroupReply) -> JoinGroupResponse:
    protocol = reply.protocol
    if protocol is None and request.api_version < NAMELESS_PROTOCOL_SINCE:
        protocol = ""
    return JoinGroupResponse(
        error_code=reply.error,
        generation_id=reply.generation,
        protocol_type=reply.protocol_type,
        protocol_name=protocol,
        leader=reply.leader,
        skip_assignment=reply.skip_assignment,
        member_id=reply.member_id,
        members=[
            JoinGroupResponseMember(
                member_id=member_id, group_instance_id=instance_id, metadata=metadata
            )
            for member_id, instance_id, metadata in reply.members
        ],
    )
