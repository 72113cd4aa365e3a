"""ListGroups (key 16, versions 0-5): the groups that this broker coordinates."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.list_groups import (
    ListGroupsRequest,
    ListGroupsResponse,
    ListGroupsResponseListedGroup,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(context: GroupsContext, request: Request[ListGroupsRequest]) -> ListGroupsResponse:
    """List them all, or those of some states and types."""
    if context.groups.are_loading:
        return ListGroupsResponse(error_code=ErrorCode.coordinator_load_in_progress)
    states = {state.lower() for state in request.body.states_filter}
    kinds = {kind.lower() for kind in request.body.types_filter}
    authorization = context.authorization
    may_see_all = authorization.allows_on_cluster(request, AclOperation.DESCRIBE, quietly=True)
    return ListGroupsResponse(
        groups=[
            ListGroupsResponseListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.kind,
            )
            for shard in context.groups.active()
            for group in shard.list_groups()
            if (not states or group.state.lower() in states)
            and (not kinds or group.kind.lower() in kinds)
            and (
                may_see_all
                or authorization.allows(
                    request,
                    AclOperation.DESCRIBE,
                    ResourceType.GROUP,
                    group.group_id,
                    quietly=True,
                )
            )
        ]
    )
