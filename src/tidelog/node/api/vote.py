"""Vote (key 52, versions 0-2): a voter wants to lead, or asks what would come of it."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Later, Request
from tidelog.node.metadata.quorum_requests import vote_asked, vote_response
from tidelog.protocol.messages.vote import VoteRequest, VoteResponse


def handle(context: ControllerContext, request: Request[VoteRequest]) -> VoteResponse | Later:
    """Give the vote or not; what is promised is on disk before the answer leaves."""
    asked = vote_asked(request.body, context.cluster.cluster_id)
    if isinstance(asked, ErrorCode):
        return VoteResponse(error_code=asked)
    return request.answer_with(context.plane.member.asked(asked, request.now).map(vote_response))
