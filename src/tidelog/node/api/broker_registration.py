"""BrokerRegistration (key 62, versions 0-4): a broker process joins; its answer is its epoch."""

from __future__ import annotations

from typing import Any

from tidelog.controller.brokers import RegisterBroker
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import NO_EPOCH, ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.control.decision_events import REGISTERED
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Register, or say why not; from now on the connection stands for the broker."""
    plane = context.plane
    registration = _registration(request.body)

    def decide(controller: Controller) -> ControllerResult[int | Refusal]:
        next_offset = plane.next_offset
        decision = controller.register_broker(
            registration, next_offset=next_offset, now=request.now
        )
        if not isinstance(decision.reply, Refusal) and plane.chores is not None:
            plane.chores.heard_from(
                registration.broker_id, decision.reply, request.connection, request.now
            )
        return decision

    return plane.decide(request, decide, _answer, _answer, REGISTERED)


def _registration(body: Any) -> RegisterBroker:
    return RegisterBroker(
        broker_id=body.broker_id,
        cluster_id=body.cluster_id,
        incarnation_id=body.incarnation_id or ZERO_UUID,
        endpoints=tuple(
            RegisteredEndpoint(
                name=point.name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in body.listeners
        ),
        features=tuple(
            RegisteredFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in body.features
        ),
        rack=body.rack,
        log_dirs=tuple(each or ZERO_UUID for each in field(body, "log_dirs", ())),
        previous_broker_epoch=field(body, "previous_broker_epoch", NO_EPOCH),
        is_migrating_zk_broker=field(body, "is_migrating_zk_broker", False),
    )


def _answer(outcome: int | Refusal) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code, "broker_epoch": NO_EPOCH}
    return {"error_code": ErrorCode.none, "broker_epoch": outcome}
