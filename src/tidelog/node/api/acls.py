"""DescribeAcls, CreateAcls, DeleteAcls (keys 29-31, versions 1-3): there is no authorizer.

They are served so that tools get the answer of an Apache Kafka without one, and not a closed
connection.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse

_DISABLED: Final = ErrorCode.security_disabled
_WHY: Final = "No Authorizer is configured."


def describe(
    context: ClusterContext, request: Request[DescribeAclsRequest]
) -> DescribeAclsResponse:
    """Nothing is allowed or denied to anybody."""
    why = "No Authorizer is configured on the broker"
    return DescribeAclsResponse(error_code=_DISABLED, error_message=why)


def create(context: ClusterContext, request: Request[CreateAclsRequest]) -> CreateAclsResponse:
    """Each rule for itself."""
    refused = AclCreationResult(error_code=_DISABLED, error_message=_WHY)
    return CreateAclsResponse(results=[refused for _ in request.body.creations])


def delete(context: ClusterContext, request: Request[DeleteAclsRequest]) -> DeleteAclsResponse:
    """Each filter for itself."""
    refused = DeleteAclsFilterResult(error_code=_DISABLED, error_message=_WHY)
    return DeleteAclsResponse(filter_results=[refused for _ in request.body.filters])
