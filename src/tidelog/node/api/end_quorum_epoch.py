"""EndQuorumEpoch (key 54, versions 0-1): the leader of the quorum resigns."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Later, Request
from tidelog.node.metadata.quorum_requests import end_epoch_response, epoch_ended
from tidelog.protocol.messages.end_quorum_epoch import (
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
)


def handle(
    context: ControllerContext, request: Request[EndQuorumEpochRequest]
) -> EndQuorumEpochResponse | Later:
    """Stand for election: at once as the first of the successors, else after a while."""
    ended = epoch_ended(request.body, context.cluster.cluster_id, request.connection.listener)
    if isinstance(ended, ErrorCode):
        return EndQuorumEpochResponse(error_code=ended)
    return request.answer_with(
        context.plane.member.asked(ended, request.now).map(end_epoch_response)
    )
