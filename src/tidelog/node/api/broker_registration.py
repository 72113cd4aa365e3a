"""BrokerRegistration (key 62, versions 0-4): a broker process joins; its answer is its epoch."""

from __future__ import annotations

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.registration import RegisterBrokerCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
)


def handle(
    context: ControllerContext, request: Request[BrokerRegistrationRequest]
) -> BrokerRegistrationResponse | Later:
    """Register, or say why not; from now on the connection stands for the broker."""
    plane = context.plane
    call = RegisterBrokerCall.asked_in(request.body)

    def decide(controller: Controller) -> ControllerResult[int | Refusal]:
        decision = call.decide(controller, plane.next_offset, request.now)
        if not isinstance(decision.reply, Refusal) and plane.periodic_tasks is not None:
            broker_id = call.registration.broker_id
            plane.periodic_tasks.heard_from(
                broker_id, decision.reply, request.connection, request.now
            )
        return decision

    return plane.decide(request, decide, call.answer, call.answer, call.cause)
