"""BeginQuorumEpoch (key 53, versions 0-1): a new leader of the quorum makes itself known."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Later, Request
from tidelog.node.metadata.quorum_requests import begin_epoch_response, epoch_begun
from tidelog.protocol.messages.begin_quorum_epoch import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
)


def handle(
    context: ControllerContext, request: Request[BeginQuorumEpochRequest]
) -> BeginQuorumEpochResponse | Later:
    """Follow it, unless a later epoch is known."""
    begun = epoch_begun(request.body, context.cluster.cluster_id, request.connection.listener)
    if isinstance(begun, ErrorCode):
        return BeginQuorumEpochResponse(error_code=begun)
    return request.answer_with(
        context.plane.member.asked(begun, request.now).map(begin_epoch_response)
    )
