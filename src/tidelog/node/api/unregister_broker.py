"""UnregisterBroker (key 64, version 0): the cluster forgets a broker that will not come back."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.control.decision_events import UNREGISTERED
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Take the broker out of every in-sync set and drop its registration."""
    broker_id = request.body.broker_id
    return context.control.decide(
        request,
        lambda controller: controller.unregister_broker(broker_id),
        _answer,
        _answer,
        UNREGISTERED,
    )


def _answer(outcome: Refusal | None) -> Fields:
    if outcome is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": outcome.code, "error_message": outcome.why}
