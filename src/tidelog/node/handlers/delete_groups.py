"""DeleteGroups (key 42, versions 0-2): forget groups without members, and all their offsets."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.broker_state import BrokerState
from tidelog.node.gathering import gather
from tidelog.node.request import Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """Forget each group for itself."""
    group_ids = request.body.groups_names
    later = request.park()

    def answer(outcomes: list[Refusal | None]) -> None:
        request.answer(
            {
                "results": [
                    {
                        "group_id": group_id,
                        "error_code": ErrorCode.none if refused is None else refused.code,
                    }
                    for group_id, refused in zip(group_ids, outcomes, strict=True)
                ]
            }
        )

    gather(
        group_ids,
        lambda group_id, then: broker.groups.ask(
            request.now, group_id, lambda shard: shard.delete_group(group_id), then
        ),
        answer,
    )
    return later
