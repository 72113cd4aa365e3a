"""CreateTopics (key 19, versions 2-7): decided by the controller, answered when it is true."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import METADATA_TOPIC
from tidelog.node.api.contexts import AdminContext
from tidelog.node.control.calls.create_topics import CreatedTopics, CreateTopicsCall
from tidelog.node.core.authorization import TOPIC_DENIED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from tidelog.security.acls import AclOperation, ResourceType

STRICT_SINCE: Final = 6
"""The first version whose clients know that a quota can be exceeded."""


def handle(
    context: AdminContext, request: Request[CreateTopicsRequest]
) -> CreateTopicsResponse | Later:
    """Create every topic that can be created; the others get their refusal."""
    call = CreateTopicsCall.asked_in(request.body)
    quota = context.mutations.of(request, strict_since=STRICT_SINCE)
    hidden: frozenset[str] = frozenset()

    def decide(controller: Controller) -> ControllerResult[CreatedTopics]:
        nonlocal hidden
        denied = _denied(context, request, call)
        hidden = _hidden(context, request, call)
        topics = [topic for topic in call.topics if topic.name not in denied]
        decision = controller.create_topics(
            topics, validate_only=call.validate_only, charge=quota.charge
        )
        refused = [(name, TOPIC_DENIED) for name in denied]
        return replace(decision, reply=[*decision.reply, *refused])

    return context.control.decide(
        request,
        decide,
        lambda outcome: quota.throttled(_shown(call.answer(outcome), hidden)),
        call.answer,
    )


def _denied(
    context: AdminContext, request: Request[CreateTopicsRequest], call: CreateTopicsCall
) -> frozenset[str]:
    """The topics that may not be created.

    One that is named twice, and the metadata's own, nobody can create: that is said to everybody.
    """
    authorization, create = context.authorization, AclOperation.CREATE
    if authorization.allows_on_cluster(request, create, quietly=True):
        return frozenset()
    times = Counter(topic.name for topic in call.topics)
    names = [name for name, count in times.items() if count == 1 and name != METADATA_TOPIC]
    return authorization.denied(request, create, ResourceType.TOPIC, names)


def _hidden(
    context: AdminContext, request: Request[CreateTopicsRequest], call: CreateTopicsCall
) -> frozenset[str]:
    """The topics whose settings may not be told."""
    names = (topic.name for topic in call.topics)
    describe, kind = AclOperation.DESCRIBE_CONFIGS, ResourceType.TOPIC
    return context.authorization.denied(request, describe, kind, names, quietly=True)


def _shown(response: CreateTopicsResponse, hidden: frozenset[str]) -> CreateTopicsResponse:
    """What the client may know of the topics that it created."""
    if not hidden:
        return response
    return CreateTopicsResponse(
        topics=[
            CreatableTopicResult(
                name=topic.name,
                topic_id=topic.topic_id,
                error_message=None,
                topic_config_error_code=ErrorCode.topic_authorization_failed,
            )
            if topic.name in hidden and not topic.error_code
            else topic
            for topic in response.topics
        ]
    )
