"""BeginQuorumEpoch (key 53, versions 0-1): a new leader of the quorum makes itself known."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Reply, Request
from tidelog.node.metadata.quorum_letters import epoch_begun, epoch_response


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Follow it, unless a later epoch is known."""
    begun = epoch_begun(request.body, context.cluster.cluster_id, request.connection.listener)
    if isinstance(begun, ErrorCode):
        return epoch_response(begun)
    reply = request.park()
    context.plane.member.epoch_begun(
        begun, request.now, lambda answer: request.answer(epoch_response(answer))
    )
    return reply
