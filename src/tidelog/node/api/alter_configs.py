"""AlterConfigs (key 33, versions 0-2): replace all settings of a resource."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.configs import ConfigChange, ConfigOp, ResourceChange
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResponse,
    AlterConfigsResponseAlterConfigsResourceResponse,
)


def handle(
    context: AdminContext, request: Request[AlterConfigsRequest]
) -> AlterConfigsResponse | Later:
    """What is not named goes back to its default."""
    body = request.body
    changes = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [ConfigChange(config.name, ConfigOp.SET, config.value) for config in resource.configs],
        )
        for resource in body.resources
    ]
    return context.control.decide(
        request,
        lambda controller: controller.alter_configs(changes, validate_only=body.validate_only),
        _answer,
        lambda refusal: _answer([(change.resource, refusal) for change in changes]),
    )


def _answer(outcome: Sequence[tuple[tuple[int, str], Refusal | None]]) -> AlterConfigsResponse:
    return AlterConfigsResponse(
        responses=[
            AlterConfigsResponseAlterConfigsResourceResponse(
                error_code=ErrorCode.none if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.why,
                resource_type=kind,
                resource_name=name,
            )
            for (kind, name), refusal in outcome
        ]
    )
