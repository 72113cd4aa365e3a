"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tidelog.controller.configs import AlteredConfigs, ConfigChange, ResourceChange
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.config_permissions import permitted_changes
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    IncrementalAlterConfigsResponseAlterConfigsResourceResponse,
)


def handle(
    context: AdminContext, request: Request[IncrementalAlterConfigsRequest]
) -> IncrementalAlterConfigsResponse | Later:
    """Set, delete, append and subtract; each resource is taken whole or not at all."""
    body = request.body
    changes = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [
                ConfigChange(config.name, config.config_operation, config.value)
                for config in resource.configs
            ],
        )
        for resource in body.resources
    ]

    def decide(controller: Controller) -> ControllerResult[AlteredConfigs]:
        allowed, denied = permitted_changes(context.authorization, request, changes)
        decision = controller.incremental_alter_configs(allowed, validate_only=body.validate_only)
        return replace(decision, reply=[*decision.reply, *denied])

    return context.control.decide(
        request,
        decide,
        _answer,
        lambda refusal: _answer([(change.resource, refusal) for change in changes]),
    )


def _answer(
    outcome: Sequence[tuple[tuple[int, str], Refusal | None]],
) -> IncrementalAlterConfigsResponse:
    return IncrementalAlterConfigsResponse(
        responses=[
            IncrementalAlterConfigsResponseAlterConfigsResourceResponse(
                error_code=ErrorCode.none if refusal is None else refusal.code,
                error_message=None if refusal is None else refusal.why,
                resource_type=kind,
                resource_name=name,
            )
            for (kind, name), refusal in outcome
        ]
    )
