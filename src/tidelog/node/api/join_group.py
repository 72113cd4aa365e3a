"""JoinGroup (key 11, versions 0-9): become a member of a classic group, and wait for the others."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordinator.groups.classic.joining import JoinGroup
from tidelog.coordinator.groups.classic.member import JoinGroupReply
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field, milliseconds

NAMELESS_PROTOCOL_SINCE: Final = 7


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Join; the answer comes when the generation begins."""
    wish = _wish(request)
    error = _refused(context, wish)
    if error is not None:
        return _fields(request, JoinGroupReply(error=error, member_id=wish.member_id))
    later = request.park()

    def answer(reply: JoinGroupReply | Refusal | None) -> None:
        if isinstance(reply, Refusal):
            reply = JoinGroupReply(error=reply.code, member_id=wish.member_id)
        if reply is not None:
            request.answer(_fields(request, reply))

    context.groups.ask(
        request.now,
        wish.group_id,
        lambda shard: shard.join(wish, answer, request.now),
        answer,
    )
    return later


def _wish(request: Request[Any]) -> JoinGroup:
    body = request.body
    return JoinGroup(
        version=request.api_version,
        group_id=body.group_id,
        member_id=body.member_id,
        instance_id=field(body, "group_instance_id", None),
        client_id=request.client_id or "",
        client_host=f"/{request.connection.peer_host}",
        session_timeout_ms=milliseconds(body.session_timeout),
        rebalance_timeout_ms=milliseconds(field(body, "rebalance_timeout", body.session_timeout)),
        protocol_type=body.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in body.protocols),
    )


def _refused(context: GroupsContext, wish: JoinGroup) -> ErrorCode | None:
    if not wish.group_id:
        return ErrorCode.invalid_group_id
    config = context.cluster.config
    shortest, longest = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
    if not shortest <= wish.session_timeout_ms <= longest:
        return ErrorCode.invalid_session_timeout
    return None


def _fields(request: Request[Any], reply: JoinGroupReply) -> Fields:
    protocol = reply.protocol
    if protocol is None and request.api_version < NAMELESS_PROTOCOL_SINCE:
        protocol = ""
    return {
        "error_code": reply.error,
        "generation_id": reply.generation,
        "protocol_type": reply.protocol_type,
        "protocol_name": protocol,
        "leader": reply.leader,
        "skip_assignment": reply.skip_assignment,
        "member_id": reply.member_id,
        "members": [
            {"member_id": member_id, "group_instance_id": instance_id, "metadata": metadata}
            for member_id, instance_id, metadata in reply.members
        ],
    }
