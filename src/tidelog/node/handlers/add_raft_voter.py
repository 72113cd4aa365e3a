"""AddRaftVoter (key 80, versions 0-1): a controller that follows the log gets a vote."""

from __future__ import annotations

from tidelog.controller.decision import Decision
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.voter_changes import AddVoter
from tidelog.wire.messages import field


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer when it is committed that the node votes, unless it cannot."""
    body = request.body
    if body.cluster_id is not None and body.cluster_id != broker.cluster_id:
        return voter_answer(wrong_cluster(body.cluster_id))
    voter = Voter(
        voter_id=body.voter_id,
        voter_directory_id=body.voter_directory_id or ZERO_UUID,
        endpoints=tuple(
            VoterEndpoint(name=point.name, host=point.host, port=point.port)
            for point in body.listeners
        ),
    )
    if broker.image.controllers.get(voter.voter_id) is None:
        return voter_answer(not_a_controller(voter.voter_id))
    await_commit = field(body, "ack_when_committed", True)
    return broker.control.decide(
        request,
        lambda controller: Decision(
            (),
            broker.control_plane.change_voters(
                AddVoter(voter), request.now, await_commit=await_commit
            ),
        ),
        voter_answer,
        voter_answer,
    )


def not_a_controller(node_id: int) -> Refusal:
    """A node that is no controller does not sync what it fetches, and so cannot be counted on."""
    why = f"Node {node_id} has not registered as a controller."
    return Refusal(ErrorCode.invalid_request, why)


def wrong_cluster(cluster_id: str) -> Refusal:
    return Refusal(ErrorCode.inconsistent_cluster_id, f"This is not cluster {cluster_id}.")


def voter_answer(outcome: Refusal | None) -> Fields:
    """The answer to a change of the voters."""
    if outcome is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": outcome.code, "error_message": outcome.why}
