"""EndQuorumEpoch (key 54, versions 0-1): the leader of the quorum resigns."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Reply, Request
from tidelog.node.metadata.quorum_letters import epoch_ended, epoch_response


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Stand for election: at once as the first of the successors, else after a while."""
    ended = epoch_ended(request.body, context.cluster.cluster_id, request.connection.listener)
    if isinstance(ended, ErrorCode):
        return epoch_response(ended)
    reply = request.park()
    context.plane.member.epoch_ended(
        ended, request.now, lambda answer: request.answer(epoch_response(answer))
    )
    return reply
