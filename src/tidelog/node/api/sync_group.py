"""SyncGroup (key 14, versions 0-5): a member asks what it is assigned, the leader brings it."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordinator.groups.classic.member import SyncGroupReply
from tidelog.coordinator.groups.classic.syncing import SyncGroup
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

PROTOCOL_SINCE: Final = 5
"""Members say which protocol they speak (KIP-559)."""


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Answer once the leader's assignment is stored."""
    body = request.body
    wish = SyncGroup(
        group_id=body.group_id,
        generation=body.generation_id,
        member_id=body.member_id,
        instance_id=field(body, "group_instance_id", None),
        protocol_type=field(body, "protocol_type", None),
        protocol=field(body, "protocol_name", None),
        assignments={each.member_id: each.assignment for each in body.assignments},
    )
    if request.api_version >= PROTOCOL_SINCE and None in (wish.protocol_type, wish.protocol):
        return _fields(SyncGroupReply(error=ErrorCode.inconsistent_group_protocol))
    if not wish.group_id:
        return _fields(SyncGroupReply(error=ErrorCode.invalid_group_id))
    later = request.park()

    def answer(reply: SyncGroupReply | Refusal | None) -> None:
        if isinstance(reply, Refusal):
            reply = SyncGroupReply(error=reply.code)
        if reply is not None:
            request.answer(_fields(reply))

    context.groups.ask(
        request.now,
        wish.group_id,
        lambda shard: shard.sync(wish, answer, request.now),
        answer,
    )
    return later


def _fields(reply: SyncGroupReply) -> Fields:
    return {
        "error_code": reply.error,
        "protocol_type": reply.protocol_type,
        "protocol_name": reply.protocol,
        "assignment": reply.assignment,
    }
