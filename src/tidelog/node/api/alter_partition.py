"""AlterPartition (key 56, versions 2-3): leaders propose the in-sync sets of their partitions."""

from __future__ import annotations

from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.alter_partition import AlterPartitionCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def handle(
    context: ControllerContext, request: Request[AlterPartitionRequest]
) -> AlterPartitionResponse | Later:
    """Each partition for itself; a stale sender gets one answer for all."""
    return context.plane.answer(request, AlterPartitionCall.asked_in(request.body))
