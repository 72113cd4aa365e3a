"""FindCoordinator (key 10, versions 0-6): which broker answers for a group or transactional id.

While the internal topic is being created, and while its partition has no leader, the answer is
COORDINATOR_NOT_AVAILABLE: ask again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.shard import GroupShard
from tidelog.coordinator.transactions.records import TransactionRecord
from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.coordination.coordinators import Coordinators
from tidelog.node.core.request import Request
from tidelog.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from tidelog.security.acls import AclOperation, ResourceType

GROUP: Final = 0
TRANSACTION: Final = 1
MANY_SINCE: Final = 4
_RESOURCES: Final = {
    GROUP: (ResourceType.GROUP, ErrorCode.group_authorization_failed),
    TRANSACTION: (
        ResourceType.TRANSACTIONAL_ID,
        ErrorCode.transactional_id_authorization_failed,
    ),
}


class FoundCoordinator(NamedTuple):
    """Where a coordinator is, or why that is not known."""

    error_code: ErrorCode
    error_message: str | None
    node_id: int = -1
    host: str = ""
    port: int = -1


def handle(
    context: ClusterContext, request: Request[FindCoordinatorRequest]
) -> FindCoordinatorResponse:
    """Look each key up."""
    body = request.body
    if request.api_version < MANY_SINCE:
        return FindCoordinatorResponse(**_find(context, request, body.key)._asdict())
    return FindCoordinatorResponse(
        coordinators=[
            FindCoordinatorResponseCoordinator(key=key, **_find(context, request, key)._asdict())
            for key in body.coordinator_keys
        ]
    )


def _find(
    context: ClusterContext, request: Request[FindCoordinatorRequest], key: str
) -> FoundCoordinator:
    key_type = request.body.key_type
    coordinators = _of_type(context, key_type)
    if coordinators is None:
        why = f"there are no coordinators of type {key_type}"
        return FoundCoordinator(ErrorCode.invalid_request, why)
    resource, denied = _RESOURCES[key_type]
    if not context.authorization.allows(request, AclOperation.DESCRIBE, resource, key):
        return FoundCoordinator(denied, None)
    if not coordinators.topic_exists:
        coordinators.create_topic(request.now)
    node_id = coordinators.coordinator_of(key)
    endpoint = context.cluster.endpoint(node_id, request.connection.listener)
    if endpoint is None:
        why = "the coordinator is not available yet"
        return FoundCoordinator(ErrorCode.coordinator_not_available, why)
    return FoundCoordinator(ErrorCode.none, None, node_id, *endpoint)


def _of_type(
    context: ClusterContext, key_type: int
) -> (
    Coordinators[GroupShard, GroupRecord] | Coordinators[TransactionShard, TransactionRecord] | None
):
    if key_type == GROUP:
        return context.groups
    return context.transactions if key_type == TRANSACTION else None
