"""ControllerRegistration (key 70, version 0): a controller process says who it is."""

from __future__ import annotations

from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.registration import RegisterControllerCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)


def handle(
    context: ControllerContext, request: Request[ControllerRegistrationRequest]
) -> ControllerRegistrationResponse | Later:
    """Note it in the log, for whoever wants to know which controllers there are."""
    return context.plane.answer(request, RegisterControllerCall.asked_in(request.body))
