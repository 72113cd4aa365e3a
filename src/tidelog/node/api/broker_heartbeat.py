"""BrokerHeartbeat (key 63, versions 0-2): a broker lives, and moves on in its life."""

from __future__ import annotations

from typing import Any

from tidelog.controller.brokers import BrokerHeartbeat, BrokerHeartbeatReply
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.decision_events import heartbeat_words
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Note the heartbeat; its connection stands for the broker from now on."""
    plane = context.plane
    heartbeat = _heartbeat(request.body)

    def decide(controller: Controller) -> ControllerResult[BrokerHeartbeatReply | Refusal]:
        if plane.chores is not None and plane.chores.is_late(heartbeat, request.connection):
            return ControllerResult((), _unchanged(controller, heartbeat))
        decision = controller.broker_heartbeat(
            heartbeat, next_offset=plane.next_offset, now=request.now
        )
        if not isinstance(decision.reply, Refusal) and plane.chores is not None:
            plane.chores.heard_from(
                heartbeat.broker_id, heartbeat.broker_epoch, request.connection, request.now
            )
        return decision

    return plane.decide(request, decide, _answer, _answer, heartbeat_words(heartbeat))


def _unchanged(controller: Controller, heartbeat: BrokerHeartbeat) -> BrokerHeartbeatReply:
    """Where the broker stands, for a heartbeat that came too late to count."""
    broker = controller.image.brokers[heartbeat.broker_id]
    return BrokerHeartbeatReply(
        is_caught_up=heartbeat.metadata_offset >= broker.registered_at,
        is_fenced=broker.fenced,
        should_shut_down=False,
    )


def _heartbeat(body: Any) -> BrokerHeartbeat:
    cordoned = field(body, "cordoned_log_dirs", None)
    return BrokerHeartbeat(
        broker_id=body.broker_id,
        broker_epoch=body.broker_epoch,
        metadata_offset=body.current_metadata_offset,
        want_fence=body.want_fence,
        want_shut_down=body.want_shut_down,
        offline_log_dirs=tuple(each or ZERO_UUID for each in field(body, "offline_log_dirs", ())),
        cordoned_log_dirs=None
        if cordoned is None
        else tuple(each or ZERO_UUID for each in cordoned),
    )


def _answer(outcome: BrokerHeartbeatReply | Refusal) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code}
    return {
        "error_code": ErrorCode.none,
        "is_caught_up": outcome.is_caught_up,
        "is_fenced": outcome.is_fenced,
        "should_shut_down": outcome.should_shut_down,
    }
