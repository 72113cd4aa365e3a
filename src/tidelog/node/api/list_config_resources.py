"""ListConfigResources (key 74, versions 0-1): what can have settings of its own."""

from __future__ import annotations

from typing import Final

from tidelog.controller.image import BROKER_CONFIG, GROUP_CONFIG, TOPIC_CONFIG
from tidelog.model.errors import ErrorCode
from tidelog.node.api.config_permissions import BROKER_LOGGER, CLIENT_METRICS
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.list_config_resources import (
    ConfigResource,
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)

KNOWN: Final = (TOPIC_CONFIG, BROKER_CONFIG, BROKER_LOGGER, CLIENT_METRICS, GROUP_CONFIG)


def handle(
    context: ClusterContext, request: Request[ListConfigResourcesRequest]
) -> ListConfigResourcesResponse:
    """List topics, brokers, and groups that have settings.

    Version 0 asks for client metrics alone, which we do not have.
    """
    if request.api_version == 0:
        return ListConfigResourcesResponse()
    asked = set(request.body.resource_types) or set(KNOWN)
    if not asked <= set(KNOWN):
        return ListConfigResourcesResponse(error_code=ErrorCode.unsupported_version)
    image = context.cluster.image
    brokers = [str(node) for node in sorted(image.brokers)]
    names = {
        TOPIC_CONFIG: sorted(image.topics_by_name),
        BROKER_CONFIG: brokers,
        BROKER_LOGGER: brokers,
        GROUP_CONFIG: [name for kind, name in sorted(image.configs) if kind == GROUP_CONFIG],
    }
    return ListConfigResourcesResponse(
        config_resources=[
            ConfigResource(resource_name=name, resource_type=kind)
            for kind in names
            if kind in asked
            for name in names[kind]
        ]
    )
