"""ListConfigResources (key 74, versions 0-1): what can have settings of its own."""

from __future__ import annotations

from typing import Any, Final

from tidelog.controller.image import BROKER_CONFIG, GROUP_CONFIG, TOPIC_CONFIG
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.entity_messages import field

BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
KNOWN: Final = (TOPIC_CONFIG, BROKER_CONFIG, BROKER_LOGGER, CLIENT_METRICS, GROUP_CONFIG)


def handle(context: ClusterContext, request: Request[Any]) -> Reply:
    """List topics, brokers, and groups that have settings.

    Version 0 asks for client metrics alone, which we do not have.
    """
    if request.api_version == 0:
        return {"error_code": ErrorCode.none, "config_resources": []}
    asked = set(field(request.body, "resource_types", ())) or set(KNOWN)
    if not asked <= set(KNOWN):
        return {"error_code": ErrorCode.unsupported_version, "config_resources": []}
    resources: list[dict[str, Any]] = []
    if TOPIC_CONFIG in asked:
        resources += [
            {"resource_name": name, "resource_type": TOPIC_CONFIG}
            for name in sorted(context.cluster.image.topics_by_name)
        ]
    for kind in (BROKER_CONFIG, BROKER_LOGGER):
        if kind in asked:
            resources += [
                {"resource_name": str(node), "resource_type": kind}
                for node in sorted(context.cluster.image.brokers)
            ]
    if GROUP_CONFIG in asked:
        resources += [
            {"resource_name": name, "resource_type": kind}
            for kind, name in sorted(context.cluster.image.configs)
            if kind == GROUP_CONFIG
        ]
    return {"error_code": ErrorCode.none, "config_resources": resources}
