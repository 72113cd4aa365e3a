"""DescribeAcls, CreateAcls, DeleteAcls (keys 29-31, versions 1-3): there is no authorizer.

They are served so that tools get the answer of an Apache Kafka without one, and not a closed
connection.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Reply, Request

_DISABLED: Final = {
    "error_code": ErrorCode.security_disabled,
    "error_message": "No Authorizer is configured.",
}


def describe(context: ClusterContext, request: Request[Any]) -> Reply:
    """Nothing is allowed or denied to anybody."""
    why = "No Authorizer is configured on the broker"
    return {**_DISABLED, "error_message": why, "resources": []}


def create(context: ClusterContext, request: Request[Any]) -> Reply:
    """Each rule for itself."""
    return {"results": [_DISABLED for _ in request.body.creations]}


def delete(context: ClusterContext, request: Request[Any]) -> Reply:
    """Each filter for itself."""
    return {"filter_results": [{**_DISABLED, "matching_acls": []} for _ in request.body.filters]}
