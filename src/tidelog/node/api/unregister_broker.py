"""UnregisterBroker (key 64, version 0): the cluster forgets a broker that will not come back."""

from __future__ import annotations

from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.control.decision_events import UNREGISTERED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)


def handle(
    context: AdminContext, request: Request[UnregisterBrokerRequest]
) -> UnregisterBrokerResponse | Later:
    """Take the broker out of every in-sync set and drop its registration."""
    broker_id = request.body.broker_id
    return context.control.decide(
        request,
        lambda controller: controller.unregister_broker(broker_id),
        _answer,
        _answer,
        UNREGISTERED,
    )


def _answer(outcome: Refusal | None) -> UnregisterBrokerResponse:
    if outcome is None:
        return UnregisterBrokerResponse(error_message=None)
    return UnregisterBrokerResponse(error_code=outcome.code, error_message=outcome.why)
