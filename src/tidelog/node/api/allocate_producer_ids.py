"""AllocateProducerIds (key 67, version 0): a block of producer ids for a broker."""

from __future__ import annotations

from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.producer_ids import AllocateProducerIdsCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.allocate_producer_ids import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
)


def handle(
    context: ControllerContext, request: Request[AllocateProducerIdsRequest]
) -> AllocateProducerIdsResponse | Later:
    """Give the next block away."""
    return context.plane.answer(request, AllocateProducerIdsCall.asked_in(request.body))
