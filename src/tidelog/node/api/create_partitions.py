"""CreatePartitions (key 37, versions 0-3): a topic grows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tidelog.controller.controller import Controller
from tidelog.controller.partitions import NewPartitions
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.authorization import TOPIC_DENIED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from tidelog.security.acls import AclOperation, ResourceType

STRICT_SINCE: Final = 3
"""The first version whose clients know that a quota can be exceeded."""


def handle(
    context: AdminContext, request: Request[CreatePartitionsRequest]
) -> CreatePartitionsResponse | Later:
    """Add partitions to every topic that can have more."""
    body = request.body
    growing = [
        NewPartitions(
            topic.name,
            topic.count,
            None if topic.assignments is None else [each.broker_ids for each in topic.assignments],
        )
        for topic in body.topics
    ]
    quota = context.mutations.of(request, strict_since=STRICT_SINCE)
    times = Counter(each.topic for each in growing)

    def decide(controller: Controller) -> ControllerResult[list[tuple[str, Refusal | None]]]:
        denied = context.authorization.denied(
            request,
            AclOperation.ALTER,
            ResourceType.TOPIC,
            (name for name, count in times.items() if count == 1),
        )
        allowed = [each for each in growing if each.topic not in denied]
        decision = controller.create_partitions(
            allowed, validate_only=body.validate_only, charge=quota.charge
        )
        refused = [(name, TOPIC_DENIED) for name in denied]
        return replace(decision, reply=[*decision.reply, *refused])

    return context.control.decide(
        request,
        decide,
        lambda outcome: quota.throttled(_answer(outcome)),
        lambda refusal: _answer([(each.topic, refusal) for each in growing]),
    )


def _answer(outcome: Sequence[tuple[str, Refusal | None]]) -> CreatePartitionsResponse:
    return CreatePartitionsResponse(
        results=[
            CreatePartitionsTopicResult(
                name=name,
                error_code=ErrorCode.none if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.why,
            )
            for name, refusal in dict(outcome).items()  # one named twice is answered for once
        ]
    )
