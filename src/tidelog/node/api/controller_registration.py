"""ControllerRegistration (key 70, version 0): a controller process says who it is."""

from __future__ import annotations

from typing import Any

from tidelog.controller.brokers import RegisterController
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.stored.metadata import (
    RegisteredEndpoint,
    RegisteredFeature,
)


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Note it in the log, for whoever wants to know which controllers there are."""
    joining = _joining(request.body)
    return context.plane.decide(
        request, lambda controller: controller.register_controller(joining), _answer, _answer
    )


def _joining(body: Any) -> RegisterController:
    return RegisterController(
        body.controller_id,
        body.incarnation_id or ZERO_UUID,
        tuple(
            RegisteredEndpoint(
                name=point.name,
                host=point.host,
                port=point.port,
                security_protocol=point.security_protocol,
            )
            for point in body.listeners
        ),
        tuple(
            RegisteredFeature(
                name=feature.name,
                min_supported_version=feature.min_supported_version,
                max_supported_version=feature.max_supported_version,
            )
            for feature in body.features
        ),
    )


def _answer(outcome: Refusal | None) -> Fields:
    if outcome is None:
        return {"error_code": ErrorCode.none, "error_message": None}
    return {"error_code": outcome.code, "error_message": outcome.why}
