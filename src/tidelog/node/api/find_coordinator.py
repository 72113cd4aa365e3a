"""FindCoordinator (key 10, versions 0-6): which broker answers for a group or transactional id.

While the internal topic is being created, and while its partition has no leader, the answer is
COORDINATOR_NOT_AVAILABLE: ask again.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

GROUP: Final = 0
TRANSACTION: Final = 1
MANY_SINCE: Final = 4
NOWHERE: Final[Fields] = {"node_id": -1, "host": "", "port": -1}


def handle(context: ClusterContext, request: Request[Any]) -> Reply:
    """Look each key up."""
    body = request.body
    key_type = field(body, "key_type", GROUP)
    if request.api_version < MANY_SINCE:
        return _find(context, request, key_type, body.key)
    return {
        "coordinators": [
            {"key": key, **_find(context, request, key_type, key)} for key in body.coordinator_keys
        ]
    }


def _find(context: ClusterContext, request: Request[Any], key_type: int, key: str) -> Fields:
    coordinators = _of_type(context, key_type)
    if coordinators is None:
        why = f"there are no coordinators of type {key_type}"
        return {"error_code": ErrorCode.invalid_request, "error_message": why, **NOWHERE}
    if not coordinators.topic_exists:
        coordinators.create_topic(request.now)
    node_id = coordinators.coordinator_of(key)
    endpoint = context.cluster.endpoint(node_id, request.connection.listener)
    if endpoint is None:
        why = "the coordinator is not available yet"
        return {"error_code": ErrorCode.coordinator_not_available, "error_message": why, **NOWHERE}
    host, port = endpoint
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "node_id": node_id,
        "host": host,
        "port": port,
    }


def _of_type(context: ClusterContext, key_type: int) -> Coordinators[Any] | None:
    if key_type == GROUP:
        return context.groups
    return context.transactions if key_type == TRANSACTION else None
