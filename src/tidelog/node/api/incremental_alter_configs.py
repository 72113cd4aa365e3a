"""IncrementalAlterConfigs (key 44, versions 0-1): change single settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tidelog.controller.configs import AlteredConfigs, ConfigChange, ConfigOp, ResourceChange
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request

Alter: TypeAlias = Callable[
    [Controller, Sequence[ResourceChange], bool], ControllerResult[AlteredConfigs]
]


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Set, delete, append and subtract; each resource is taken whole or not at all."""
    return alter(
        context,
        request,
        lambda controller, wishes, validate_only: controller.incremental_alter_configs(
            wishes, validate_only=validate_only
        ),
    )


def alter(context: AdminContext, request: Request[Any], decide: Alter) -> Reply:
    """What both ways of altering configs share."""
    body = request.body
    wishes = [
        ResourceChange(
            resource.resource_type,
            resource.resource_name,
            [
                ConfigChange(
                    config.name, getattr(config, "config_operation", ConfigOp.SET), config.value
                )
                for config in resource.configs
            ],
        )
        for resource in body.resources
    ]
    return context.control.decide(
        request,
        lambda controller: decide(controller, wishes, body.validate_only),
        _answer,
        lambda refusal: _answer([(wish.resource, refusal) for wish in wishes]),
    )


def _answer(outcome: Sequence[tuple[tuple[int, str], Refusal | None]]) -> Fields:
    return {
        "responses": [
            {
                "error_code": ErrorCode.none if refusal is None else refusal.code,
                "error_message": None if refusal is None else refusal.why,
                "resource_type": kind,
                "resource_name": name,
            }
            for (kind, name), refusal in outcome
        ]
    }
