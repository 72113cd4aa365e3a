"""DeleteTopics (key 20, versions 1-6): by name, and from version 6 on by id."""

from __future__ import annotations

from functools import partial
from typing import Final
from uuid import UUID

from tidelog.controller.topics import TopicDeletion
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)

DELETION_DISABLED_SINCE: Final = 3
STRICT_SINCE: Final = 5
"""The first version whose clients know that a quota can be exceeded."""


def handle(
    context: AdminContext, request: Request[DeleteTopicsRequest]
) -> DeleteTopicsResponse | Later:
    """Delete every topic that exists; the others get their refusal."""
    body = request.body
    named: list[tuple[str | None, UUID]] = [
        *((topic.name, topic.topic_id or ZERO_UUID) for topic in body.topics),
        *((name, ZERO_UUID) for name in body.topic_names),
    ]
    answer = partial(_answer, request.api_version)
    quota = context.mutations.of(request, strict_since=STRICT_SINCE)
    return context.control.decide(
        request,
        lambda controller: controller.delete_topics(named, quota.charge),
        lambda outcome: quota.throttled(answer(outcome)),
        lambda refusal: answer([TopicDeletion(*each, refusal) for each in named]),
    )


def _answer(version: int, outcome: list[TopicDeletion]) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(
        responses=[
            DeletableTopicResult(
                name=deletion.name,
                topic_id=deletion.topic_id,
                error_code=_code(version, deletion.refusal),
                error_message=None if deletion.refusal is None else deletion.refusal.why,
            )
            for deletion in dict.fromkeys(outcome)  # one named twice is answered for once
        ]
    )


def _code(version: int, refusal: Refusal | None) -> ErrorCode:
    if refusal is None:
        return ErrorCode.none
    if refusal.code is ErrorCode.topic_deletion_disabled and version < DELETION_DISABLED_SINCE:
        return ErrorCode.invalid_request
    return refusal.code
