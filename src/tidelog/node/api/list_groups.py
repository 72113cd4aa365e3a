"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """List them all, or those of some states and types."""
    if context.groups.are_loading:
        return {"error_code": ErrorCode.coordinator_load_in_progress, "groups": []}
    states = {state.lower() for state in field(request.body, "states_filter", ())}
    kinds = {kind.lower() for kind in field(request.body, "types_filter", ())}
    return {
        "error_code": ErrorCode.none,
        "groups": [
            {
                "group_id": group.group_id,
                "protocol_type": group.protocol_type,
                "group_state": group.state,
                "group_type": group.kind,
            }
            for shard in context.groups.active()
            for group in shard.list_groups()
            if (not states or group.state.lower() in states)
            and (not kinds or group.kind.lower() in kinds)
        ],
    }
