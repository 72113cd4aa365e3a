"""DeleteGroups (key 42, versions 0-2): forget groups without members, and all their offsets."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.delete_groups import (
    DeletableGroupResult,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
)


def handle(
    context: GroupsContext, request: Request[DeleteGroupsRequest]
) -> DeleteGroupsResponse | Later:
    """Forget each group for itself."""
    group_ids = list(dict.fromkeys(request.body.groups_names))
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

    gather(group_ids, partial(_delete, context, request.now), answer)
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
