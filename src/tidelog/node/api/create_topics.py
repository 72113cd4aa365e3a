"""CreateTopics (key 19, versions 2-7): decided by the controller, answered when it is true."""

from __future__ import annotations

from typing import Final

from tidelog.node.api.contexts import AdminContext
from tidelog.node.control.calls.create_topics import CreateTopicsCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

STRICT_SINCE: Final = 6
"""The first version whose clients know that a quota can be exceeded."""


def handle(
    context: AdminContext, request: Request[CreateTopicsRequest]
) -> CreateTopicsResponse | Later:
    """Create every topic that can be created; the others get their refusal."""
    call = CreateTopicsCall.asked_in(request.body)
    quota = context.mutations.of(request, strict_since=STRICT_SINCE)
    return context.control.decide(
        request,
        lambda controller: controller.create_topics(
            call.topics, validate_only=call.validate_only, charge=quota.charge
        ),
        lambda outcome: quota.throttled(call.answer(outcome)),
        call.answer,
    )
