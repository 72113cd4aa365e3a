"""RemoveRaftVoter (key 81, version 0): a controller loses its vote."""

from __future__ import annotations

from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.add_raft_voter import wrong_cluster
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.authorization import CLUSTER_DENIED
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.remove_raft_voter import (
    RemoveRaftVoterRequest,
    RemoveRaftVoterResponse,
)
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.voters import RemoveVoter


def handle(
    context: AdminContext, request: Request[RemoveRaftVoterRequest]
) -> RemoveRaftVoterResponse | Later:
    """Answer when it is committed that the node does not vote, unless it is the only one."""
    body = request.body
    if context.decides and not context.authorization.allows_whole(request):
        return _answer(CLUSTER_DENIED)
    if body.cluster_id is not None and body.cluster_id != context.cluster.cluster_id:
        return _answer(wrong_cluster(body.cluster_id))
    change = RemoveVoter(ReplicaKey(body.voter_id, body.voter_directory_id or ZERO_UUID))
    return context.control.decide(
        request,
        lambda controller: ControllerResult(
            (), context.own_plane.change_voters(change, request.now)
        ),
        _answer,
        _answer,
    )


def _answer(outcome: Refusal | None) -> RemoveRaftVoterResponse:
    if outcome is None:
        return RemoveRaftVoterResponse(error_message=None)
    return RemoveRaftVoterResponse(error_code=outcome.code, error_message=outcome.why)
