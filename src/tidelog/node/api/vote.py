"""Vote (key 52, versions 0-2): a voter wants to lead, or asks what would come of it."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Reply, Request
from tidelog.node.metadata.quorum_letters import vote_asked, vote_response


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Give the vote or not; what is promised is on disk before the answer leaves."""
    asked = vote_asked(request.body, context.cluster.cluster_id)
    if isinstance(asked, ErrorCode):
        return vote_response(asked)
    reply = request.park()
    context.plane.member.vote_asked(
        asked, request.now, lambda answer: request.answer(vote_response(answer))
    )
    return reply
