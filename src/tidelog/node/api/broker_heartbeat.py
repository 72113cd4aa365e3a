"""BrokerHeartbeat (key 63, versions 0-2): a broker lives, and moves on in its life."""

from __future__ import annotations

from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.calls.broker_heartbeat import BrokerHeartbeatCall
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
)


def handle(
    context: ControllerContext, request: Request[BrokerHeartbeatRequest]
) -> BrokerHeartbeatResponse | Later:
    """Note the heartbeat; its connection stands for the broker from now on."""
    plane = context.plane
    call = BrokerHeartbeatCall.asked_in(request.body)
    heartbeat = call.heartbeat

    def decide(controller: Controller) -> ControllerResult[BrokerHeartbeatReply | Refusal]:
        if plane.periodic_tasks is not None and plane.periodic_tasks.is_late(
            heartbeat, request.connection
        ):
            return ControllerResult((), _unchanged(controller, heartbeat))
        decision = call.decide(controller, plane.next_offset, request.now)
        if not isinstance(decision.reply, Refusal) and plane.periodic_tasks is not None:
            plane.periodic_tasks.heard_from(
                heartbeat.broker_id, heartbeat.broker_epoch, request.connection, request.now
            )
        return decision

    return plane.decide(request, decide, call.answer, call.answer, call.cause)


def _unchanged(controller: Controller, heartbeat: BrokerHeartbeat) -> BrokerHeartbeatReply:
    """Where the broker stands, for a heartbeat that came too late to count."""
    broker = controller.image.brokers[heartbeat.broker_id]
    return BrokerHeartbeatReply(
        is_caught_up=heartbeat.metadata_offset >= broker.registered_at,
        is_fenced=broker.fenced,
        should_shut_down=False,
    )
