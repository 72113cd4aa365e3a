"""AssignReplicasToDirs (key 73, version 0): a broker says where its replicas lie (KIP-858)."""

from __future__ import annotations

from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.assign_replicas import AssignReplicasCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.assign_replicas_to_dirs import (
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
)


def handle(
    context: ControllerContext, request: Request[AssignReplicasToDirsRequest]
) -> AssignReplicasToDirsResponse | Later:
    """Note it; each replica has an answer of its own."""
    return context.plane.answer(request, AssignReplicasCall.asked_in(request.body))
