"""DescribeGroups (key 15, versions 0-6): classic groups and their members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.coordinator.groups.listing import DescribedGroup
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.authorization import GROUP_DENIED
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.describe_groups import (
    DescribedGroupMember,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    DescribeGroupsResponseDescribedGroup,
)
from tidelog.security.acls import AclOperation, ResourceType

DEAD: Final = "Dead"
NOT_FOUND_SINCE: Final = 6
OPERATIONS_NOT_ASKED: Final = -(2**31)


def handle(
    context: GroupsContext, request: Request[DescribeGroupsRequest]
) -> DescribeGroupsResponse | Later:
    """Describe each group; one that does not exist is dead."""
    group_ids = request.body.groups
    denied = context.authorization.denied(
        request, AclOperation.DESCRIBE, ResourceType.GROUP, group_ids
    )
    later = request.park()

    def answer(outcomes: list[DescribedGroup | Refusal]) -> None:
        request.answer(
            DescribeGroupsResponse(
                groups=[
                    _group(context, request, group_id, outcome)
                    for group_id, outcome in zip(group_ids, outcomes, strict=True)
                ]
            )
        )

    def ask(group_id: str, then: Callable[[DescribedGroup | Refusal], None]) -> None:
        if group_id in denied:
            then(GROUP_DENIED)
            return
        context.groups.ask(
            request.now, group_id, lambda shard: shard.describe_group(group_id), then
        )

    gather(group_ids, ask, answer)
    return later


def _group(
    context: GroupsContext,
    request: Request[DescribeGroupsRequest],
    group_id: str,
    outcome: DescribedGroup | Refusal,
) -> DescribeGroupsResponseDescribedGroup:
    if isinstance(outcome, Refusal):
        error, why, state = outcome.code, outcome.why, ""
        if error is ErrorCode.group_id_not_found:
            state = DEAD
            if request.api_version < NOT_FOUND_SINCE:
                error = ErrorCode.none
        return DescribeGroupsResponseDescribedGroup(
            error_code=error,
            error_message=why,
            group_id=group_id,
            group_state=state,
            authorized_operations=OPERATIONS_NOT_ASKED,
        )
    operations = OPERATIONS_NOT_ASKED
    if request.body.include_authorized_operations:
        operations = context.authorization.operations(request, ResourceType.GROUP, group_id)
    return DescribeGroupsResponseDescribedGroup(
        group_id=group_id,
        group_state=outcome.state,
        protocol_type=outcome.protocol_type,
        protocol_data=outcome.protocol,
        members=[
            DescribedGroupMember(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                member_metadata=member.metadata,
                member_assignment=member.assignment,
            )
            for member in outcome.members
        ],
        authorized_operations=operations,
    )
