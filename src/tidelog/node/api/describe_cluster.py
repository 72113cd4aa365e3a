"""DescribeCluster (key 60, versions 0-2): which brokers, or controllers, make up the cluster."""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.api.metadata import CLUSTER_OPERATIONS, OPERATIONS_NOT_ASKED
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.apis import ListenerScope
from tidelog.protocol.entity_messages import field

BROKERS: Final = 1
CONTROLLERS: Final = 2


def handle(context: ClusterContext, request: Request[Any]) -> Reply:
    """Answer from this node's image; a listener knows only its own kind of endpoint."""
    listener = request.connection.listener
    endpoint_type = field(request.body, "endpoint_type", BROKERS)
    here = BROKERS if context.listeners.scope_of(listener) & ListenerScope.BROKER else CONTROLLERS
    if endpoint_type not in (BROKERS, CONTROLLERS):
        return {
            "error_code": ErrorCode.unsupported_endpoint_type,
            "error_message": f"endpoint type {endpoint_type} is not known",
            "cluster_id": context.cluster.cluster_id,
            "brokers": [],
        }
    if endpoint_type != here:
        return {
            "error_code": ErrorCode.mismatched_endpoint_type,
            "error_message": "this listener serves the other kind of endpoint",
            "cluster_id": context.cluster.cluster_id,
            "brokers": [],
        }
    include_fenced = field(request.body, "include_fenced_brokers", False)
    asked = field(request.body, "include_cluster_authorized_operations", False)
    if endpoint_type == CONTROLLERS:
        nodes = context.cluster.controllers()
        controller = context.control.leader_id
    else:
        nodes = (
            context.cluster.brokers(listener)
            if include_fenced
            else context.cluster.live_brokers(listener)
        )
        controller = context.cluster.passes_on(listener)
    is_listed = any(node.node_id == controller for node in nodes)
    return {
        "error_code": ErrorCode.none,
        "endpoint_type": endpoint_type,
        "cluster_id": context.cluster.cluster_id,
        "controller_id": controller if is_listed else NO_LEADER,
        "brokers": [
            {
                "broker_id": node.node_id,
                "host": node.host,
                "port": node.port,
                "rack": node.rack,
                "is_fenced": node.is_fenced,
            }
            for node in nodes
        ],
        "cluster_authorized_operations": CLUSTER_OPERATIONS if asked else OPERATIONS_NOT_ASKED,
    }
