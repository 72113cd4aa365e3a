"""DeleteTopics (key 20, versions 1-6): by name, and from version 6 on by id."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Final
from uuid import UUID

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import TopicDeletion
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.authorization import TOPIC_DENIED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from tidelog.security.acls import AclOperation, ResourceType

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

    def decide(controller: Controller) -> ControllerResult[list[TopicDeletion]]:
        if not context.cluster.config.delete_topic_enable:
            return controller.delete_topics(named, quota.charge)
        denied = _denied(context, request, controller, named)
        allowed = [each for each in named if each not in denied]
        decision = controller.delete_topics(allowed, quota.charge)
        return replace(decision, reply=[*decision.reply, *denied.values()])

    return context.control.decide(
        request,
        decide,
        lambda outcome: quota.throttled(answer(outcome)),
        lambda refusal: answer([TopicDeletion(*each, refusal) for each in named]),
    )


def _denied(
    context: AdminContext,
    request: Request[DeleteTopicsRequest],
    controller: Controller,
    named: list[tuple[str | None, UUID]],
) -> dict[tuple[str | None, UUID], TopicDeletion]:
    """Those that may not be deleted, and what is said of them.

    Who may not describe a topic does not hear whether it is there, nor the name behind its id.
    What is named twice, or by both, is refused for that, whoever names it.
    """
    authorization, kind = context.authorization, ResourceType.TOPIC
    if authorization.allows_on_cluster(request, AclOperation.DELETE, quietly=True):
        return {}
    image, times = controller.image, Counter(named)
    denied: dict[tuple[str | None, UUID], TopicDeletion] = {}
    for name, topic_id in named:
        by_id = topic_id != ZERO_UUID
        known = image.topics_by_id.get(topic_id) if by_id else None
        if times[name, topic_id] > 1 or (name is None) != by_id:
            continue
        topic = name if known is None else known.name
        if topic is None or authorization.allows(
            request, AclOperation.DELETE, kind, topic, quietly=True
        ):
            continue
        may_describe = authorization.allows(request, AclOperation.DESCRIBE, kind, topic)
        is_missing = known is None and topic not in image.topics_by_name
        if may_describe and is_missing:
            continue
        authorization.allows(request, AclOperation.DELETE, kind, topic)
        shown = topic if may_describe or not by_id else None
        denied[name, topic_id] = TopicDeletion(shown, topic_id, TOPIC_DENIED)
    return denied


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
