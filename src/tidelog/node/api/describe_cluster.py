"""DescribeCluster (key 60, versions 0-2): which brokers, or controllers, make up the cluster."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.api.metadata import OPERATIONS_NOT_ASKED
from tidelog.node.core.authorization import CLUSTER_DENIED
from tidelog.node.core.request import Request
from tidelog.protocol.apis import ListenerScope
from tidelog.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from tidelog.security.acls import AclOperation

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(
    context: ClusterContext, request: Request[DescribeClusterRequest]
) -> DescribeClusterResponse:
    """Answer from this node's image; a listener knows only its own kind of endpoint."""
    body, listener = request.body, request.connection.listener
    endpoint_type, authorization = body.endpoint_type, context.authorization
    here = BROKERS if context.listeners.scope_of(listener) & ListenerScope.BROKER else CONTROLLERS
    if here == CONTROLLERS and not authorization.allows_on_cluster(request, AclOperation.ALTER):
        return DescribeClusterResponse(
            error_code=CLUSTER_DENIED.code, error_message=CLUSTER_DENIED.why
        )
    if endpoint_type not in (BROKERS, CONTROLLERS):
        return DescribeClusterResponse(
            error_code=ErrorCode.unsupported_endpoint_type,
            error_message=f"endpoint type {endpoint_type} is not known",
            cluster_id=context.cluster.cluster_id,
        )
    if endpoint_type != here:
        return DescribeClusterResponse(
            error_code=ErrorCode.mismatched_endpoint_type,
            error_message="this listener serves the other kind of endpoint",
            cluster_id=context.cluster.cluster_id,
        )
    if endpoint_type == CONTROLLERS:
        nodes = context.cluster.controllers()
        controller = context.control.leader_id
    else:
        nodes = (
            context.cluster.brokers(listener)
            if body.include_fenced_brokers
            else context.cluster.live_brokers(listener)
        )
        controller = context.cluster.passes_on(listener)
    is_listed = any(node.node_id == controller for node in nodes)
    operations = OPERATIONS_NOT_ASKED
    if body.include_cluster_authorized_operations:
        operations = authorization.cluster_operations(request)
    return DescribeClusterResponse(
        endpoint_type=endpoint_type,
        cluster_id=context.cluster.cluster_id,
        controller_id=controller if is_listed else NO_LEADER,
        brokers=[
            DescribeClusterBroker(
                broker_id=node.node_id,
                host=node.host,
                port=node.port,
                rack=node.rack,
                is_fenced=node.is_fenced,
            )
            for node in nodes
        ],
        cluster_authorized_operations=operations,
    )
