"""Who may see and change settings: of topics and groups by name, of all else for the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

from tidelog.controller.configs import ResourceChange
from tidelog.controller.image import BROKER_CONFIG, GROUP_CONFIG, TOPIC_CONFIG
from tidelog.model.errors import Refusal
from tidelog.node.core.authorization import CLUSTER_DENIED, DENIED, Authorization
from tidelog.node.core.request import Request
from tidelog.security.acls import CLUSTER_NAME, AclOperation, ResourceType

BROKER_LOGGER: Final = 8
CLIENT_METRICS: Final = 16
_OF_THE_CLUSTER: Final = frozenset({BROKER_CONFIG, BROKER_LOGGER, CLIENT_METRICS})
_OF_RESOURCES: Final = {TOPIC_CONFIG: ResourceType.TOPIC, GROUP_CONFIG: ResourceType.GROUP}


def denied_config(
    authorization: Authorization,
    request: Request[object],
    operation: AclOperation,
    kind: int,
    name: str,
) -> Refusal | None:
    """Why a request may not do this to the settings of a resource.

    What has no settings at all is not for permissions to refuse.
    """
    if authorization.authorizer is None:
        return None
    if kind in _OF_THE_CLUSTER:
        resource, name = ResourceType.CLUSTER, CLUSTER_NAME
    elif kind in _OF_RESOURCES:
        resource = _OF_RESOURCES[kind]
    else:
        return None
    if authorization.allows(request, operation, resource, name):
        return None
    return DENIED.get(resource, CLUSTER_DENIED)


def permitted_changes(
    authorization: Authorization, request: Request[object], changes: Sequence[ResourceChange]
) -> tuple[list[ResourceChange], list[tuple[tuple[int, str], Refusal]]]:
    """The changes that a request may make, and those it may not.

    A resource that is named twice is refused for that, whoever names it.
    """
    times = Counter(change.resource for change in changes)
    allowed: list[ResourceChange] = []
    denied: list[tuple[tuple[int, str], Refusal]] = []
    for change in changes:
        refusal = None
        if times[change.resource] == 1:
            alter = AclOperation.ALTER_CONFIGS
            refusal = denied_config(authorization, request, alter, *change.resource)
        if refusal is None:
            allowed.append(change)
        else:
            denied.append((change.resource, refusal))
    return allowed, denied
