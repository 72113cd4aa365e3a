"""AddRaftVoter (key 80, versions 0-1): a controller that follows the log gets a vote.

Invariant  Who is to vote is reached first, where it says that it listens: the others will have to
           find it there, and its vote may be needed for the next decision.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog import __version__
from tidelog.controller.features import KRAFT_VERSION
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.core.links import LinkLost
from tidelog.node.core.request import Fields, Later, Reply, Request
from tidelog.node.replicas.opening import quorum_listener
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.messages import field
from tidelog.quorum.control_records import Voter, VoterEndpoint
from tidelog.quorum.voters import AddVoter

PURPOSE: Final = "quorum"
PROBE_VERSION: Final = 4


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
    address = voter.address(quorum_listener(broker.config))
    if address is None or not _decides(broker):
        return _add(broker, request, voter)
    if broker.image.controllers.get(voter.voter_id) is None:
        return voter_answer(not_a_controller(voter.voter_id))
    reply = request.park()

    def reached(answer: Any, now: Now) -> None:
        request.now = now
        refused = _unfit(broker, voter, answer)
        outcome = voter_answer(refused) if refused is not None else _add(broker, request, voter)
        if not isinstance(outcome, Later):
            request.answer(outcome)

    broker.links.to(address, PURPOSE).ask(
        request.now,
        ApiKey.API_VERSIONS,
        PROBE_VERSION,
        {"client_software_name": "tidelog", "client_software_version": __version__},
        reached,
        timeout_ms=broker.config.controller_quorum_request_timeout_ms,
    )
    return reply


def _decides(broker: BrokerState) -> bool:
    return broker.config.is_controller and broker.control_plane.is_active


def _unfit(broker: BrokerState, voter: Voter, answer: Any) -> Refusal | None:
    """Why a node that was asked what it supports cannot vote."""
    if isinstance(answer, LinkLost):
        why = f"Node {voter.voter_id} could not be reached: {answer.reason}."
        return Refusal(ErrorCode.request_timed_out, why)
    if not _decides(broker):
        return Refusal(ErrorCode.not_controller, "Another node is the active controller by now.")
    level = broker.quorum.voters.kraft_version
    for feature in answer.supported_features:
        if feature.name == KRAFT_VERSION and feature.min_version <= level <= feature.max_version:
            return None
    why = f"Node {voter.voter_id} does not support {KRAFT_VERSION} {level}."
    return Refusal(ErrorCode.invalid_request, why)


def _add(broker: BrokerState, request: Request, voter: Voter) -> Reply:
    await_commit = field(request.body, "ack_when_committed", True)
    return broker.control.decide(
        request,
        lambda controller: ControllerResult(
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
