"""CreateTopics (key 19, versions 2-7): decided by the controller, answered when it is true."""

from __future__ import annotations

from tidelog.node.api.contexts import AdminContext
from tidelog.node.control.calls.create_topics import CreateTopicsCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse


def handle(
    context: AdminContext, request: Request[CreateTopicsRequest]
) -> CreateTopicsResponse | Later:
    """Create every topic that can be created; the others get their refusal."""
    call = CreateTopicsCall.asked_in(request.body)
    return context.control.decide(
        request,
        lambda controller: controller.create_topics(call.topics, validate_only=call.validate_only),
        call.answer,
        call.answer,
    )
