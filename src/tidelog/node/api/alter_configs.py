"""AlterConfigs (key 33, versions 0-2): replace all settings of a resource."""

from __future__ import annotations

from typing import Any

from tidelog.node.api.contexts import AdminContext
from tidelog.node.api.incremental_alter_configs import alter
from tidelog.node.core.request import Reply, Request


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """What is not named goes back to its default."""
    return alter(
        context,
        request,
        lambda controller, wishes, validate_only: controller.alter_configs(
            wishes, validate_only=validate_only
        ),
    )
