"""UpdateRaftVoter (key 82, version 0): a voter says where it listens and what it supports."""

from __future__ import annotations

from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from tidelog.quorum.control_records import KRaftVersionRange, Voter, VoterEndpoint
from tidelog.quorum.voters import UpdateVoter


def handle(
    context: ControllerContext, request: Request[UpdateRaftVoterRequest]
) -> UpdateRaftVoterResponse | Later:
    """Answer when that is committed, with who leads if it is not us."""
    body = request.body

    def answer(outcome: Refusal | None) -> UpdateRaftVoterResponse:
        leader_id, leader_epoch = context.plane.fetches.leader
        return UpdateRaftVoterResponse(
            error_code=ErrorCode.none if outcome is None else outcome.code,
            current_leader=CurrentLeader(leader_id=leader_id, leader_epoch=leader_epoch),
        )

    if body.cluster_id is not None and body.cluster_id != context.cluster.cluster_id:
        return answer(Refusal(ErrorCode.inconsistent_cluster_id, "another cluster"))
    supported = body.kraft_version_feature
    voter = Voter(
        voter_id=body.voter_id,
        voter_directory_id=body.voter_directory_id or ZERO_UUID,
        endpoints=tuple(
            VoterEndpoint(name=point.name, host=point.host, port=point.port)
            for point in body.listeners
        ),
        kraft_version_feature=KRaftVersionRange(
            min_supported_version=supported.min_supported_version,
            max_supported_version=supported.max_supported_version,
        ),
    )
    change = UpdateVoter(voter, body.current_leader_epoch)
    return context.plane.decide(
        request,
        lambda controller: ControllerResult((), context.plane.change_voters(change, request.now)),
        answer,
        answer,
    )
