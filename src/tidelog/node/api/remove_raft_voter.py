"""RemoveRaftVoter (key 81, version 0): a controller loses its vote."""

from __future__ import annotations

from typing import Any

from tidelog.controller.result import ControllerResult
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.add_raft_voter import voter_answer, wrong_cluster
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Reply, Request
from tidelog.quorum.messages import ReplicaKey
from tidelog.quorum.voters import RemoveVoter


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Answer when it is committed that the node does not vote, unless it is the only one."""
    body = request.body
    if body.cluster_id is not None and body.cluster_id != context.cluster.cluster_id:
        return voter_answer(wrong_cluster(body.cluster_id))
    change = RemoveVoter(ReplicaKey(body.voter_id, body.voter_directory_id or ZERO_UUID))
    return context.control.decide(
        request,
        lambda controller: ControllerResult(
            (), context.own_plane.change_voters(change, request.now)
        ),
        voter_answer,
        voter_answer,
    )
