"""AllocateProducerIds (key 67, version 0): a block of producer ids for a broker."""

from __future__ import annotations

from typing import Any

from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Give the next block away."""
    body = request.body
    return context.plane.decide(
        request,
        lambda controller: controller.allocate_producer_ids(body.broker_id, body.broker_epoch),
        _answer,
        _answer,
    )


def _answer(outcome: ProducerIdBlock | Refusal) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code}
    return {
        "error_code": ErrorCode.none,
        "producer_id_start": outcome.first,
        "producer_id_len": outcome.length,
    }
