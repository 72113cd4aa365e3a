"""DeleteGroups (key 42, versions 0-2): forget groups without members, and all their offsets."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.authorization import GROUP_DENIED
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(
    context: GroupsContext, request: Request[DeleteGroupsRequest]
) -> DeleteGroupsResponse | Later:
    """Forget each group for itself."""
    group_ids = list(dict.fromkeys(request.body.groups_names))
    denied = context.authorization.denied(
        request, AclOperation.DELETE, ResourceType.GROUP, group_ids
    )
    later = request.park()

    def answer(outcomes: list[Refusal | None]) -> None:
        request.answer(
            DeleteGroupsResponse(
                results=[
                    DeletableGroupResult(
                        group_id=group_id,
                        error_code=ErrorCode.none if refused is None else refused.code,
                    )
                    for group_id, refused in zip(group_ids, outcomes, strict=True)
                ]
            )
        )

    def delete(group_id: str, then: Callable[[Refusal | None], None]) -> None:
        if group_id in denied:
            then(GROUP_DENIED)
        else:
            _delete(context, request.now, group_id, then)

    gather(group_ids, delete, answer)
    return later


def _delete(
    context: GroupsContext, now: Now, group_id: str, then: Callable[[Refusal | None], None]
) -> None:
    """Forget a group, one piece after the other."""

    def known(is_gone: bool | Refusal) -> None:
        if isinstance(is_gone, Refusal):
            then(is_gone)
        elif is_gone:
            then(None)
        else:
            context.runtime.deadlines.at(now.monotonic_ms, ask)

    def ask(at: Now) -> None:
        context.groups.ask(at, group_id, lambda shard: shard.delete_group(group_id), known)

    ask(now)
