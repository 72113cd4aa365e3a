"""AddRaftVoter (key 80, versions 0-1): a controller that follows the log gets a vote.

Invariant  Who is to vote is reached first, where it says that it listens: the others will have to
           find it there, and its vote may be needed for the next decision.
"""

from __future__ import annotations

from typing import Final

from tidelog import __version__
from tidelog.controller.features import KRAFT_VERSION
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.authorization import CLUSTER_DENIED
from tidelog.node.core.links import LinkLost
from tidelog.node.core.request import Later, Request
from tidelog.node.replicas.opening import quorum_listener
from tidelog.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.voters import AddVoter

PURPOSE: Final = "quorum"
PROBE_VERSION: Final = 4


def handle(
    context: AdminContext, request: Request[AddRaftVoterRequest]
) -> AddRaftVoterResponse | Later:
    """Answer when it is committed that the node votes, unless it cannot."""
    body = request.body
    if context.decides and not context.authorization.allows_whole(request):
        return _answer(CLUSTER_DENIED)
    if body.cluster_id is not None and body.cluster_id != context.cluster.cluster_id:
        return _answer(wrong_cluster(body.cluster_id))
    voter = Voter(
        voter_id=body.voter_id,
        voter_directory_id=body.voter_directory_id or ZERO_UUID,
        endpoints=tuple(
            VoterEndpoint(name=point.name, host=point.host, port=point.port)
            for point in body.listeners
        ),
    )
    address = voter.address(quorum_listener(context.cluster.config))
    if address is None or not context.decides:
        return _add(context, request, voter)
    if context.cluster.image.controllers.get(voter.voter_id) is None:
        return _answer(not_a_controller(voter.voter_id))
    reply = request.park()
    frame = memoryview(bytes(request.frame))  # it may have to be passed on after this returns

    def reached(answer: ApiVersionsResponse | LinkLost, now: Now) -> None:
        request.now, request.frame = now, frame
        refused = _unfit(context, voter, answer)
        outcome = _answer(refused) if refused is not None else _add(context, request, voter)
        if not isinstance(outcome, Later):
            request.answer(outcome)

    context.runtime.links.to_controller(address, PURPOSE).ask(
        request.now,
        ApiVersionsRequest(client_software_name="tidelog", client_software_version=__version__),
        PROBE_VERSION,
        reached,
        timeout_ms=context.cluster.config.controller_quorum_request_timeout_ms,
    )
    return reply


def _unfit(
    context: AdminContext, voter: Voter, answer: ApiVersionsResponse | LinkLost
) -> Refusal | None:
    """Why a node that was asked what it supports cannot vote."""
    if isinstance(answer, LinkLost):
        why = f"Node {voter.voter_id} could not be reached: {answer.reason}."
        return Refusal(ErrorCode.request_timed_out, why)
    if not context.decides:
        return Refusal(ErrorCode.not_controller, "Another node is the active controller by now.")
    level = context.quorum.voters.kraft_version
    for feature in answer.supported_features:
        if feature.name == KRAFT_VERSION and feature.min_version <= level <= feature.max_version:
            return None
    why = f"Node {voter.voter_id} does not support {KRAFT_VERSION} {level}."
    return Refusal(ErrorCode.invalid_request, why)


def _add(
    context: AdminContext, request: Request[AddRaftVoterRequest], voter: Voter
) -> AddRaftVoterResponse | Later:
    await_commit = request.body.ack_when_committed
    return context.control.decide(
        request,
        lambda controller: ControllerResult(
            (),
            context.own_plane.change_voters(
                AddVoter(voter), request.now, await_commit=await_commit
            ),
        ),
        _answer,
        _answer,
    )


def not_a_controller(node_id: int) -> Refusal:
    """A node that is no controller does not sync what it fetches, and so cannot be counted on."""
    why = f"Node {node_id} has not registered as a controller."
    return Refusal(ErrorCode.invalid_request, why)


def wrong_cluster(cluster_id: str) -> Refusal:
    return Refusal(ErrorCode.inconsistent_cluster_id, f"This is not cluster {cluster_id}.")


def _answer(outcome: Refusal | None) -> AddRaftVoterResponse:
    if outcome is None:
        return AddRaftVoterResponse(error_message=None)
    return AddRaftVoterResponse(error_code=outcome.code, error_message=outcome.why)
