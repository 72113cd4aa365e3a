"""DescribeAcls, CreateAcls, DeleteAcls (keys 29-31, versions 1-3): who may do what.

Every node tells what it goes by; the controller changes it. Where no authorizer is configured all
three say so.

A word that nobody knows is an invalid request; Apache Kafka hangs up, or finds nothing.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final

from tidelog.controller.acls import AclText, acl_filter
from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext, ClusterContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsRequest,
    DescribeAclsResource,
    DescribeAclsResponse,
)
from tidelog.security.acls import Acl

NO_AUTHORIZER: Final = Refusal(ErrorCode.security_disabled, "No Authorizer is configured.")


def describe(
    context: ClusterContext, request: Request[DescribeAclsRequest]
) -> DescribeAclsResponse:
    """The rules that the filter means, resource by resource."""
    authorizer, body = context.authorization.authorizer, request.body
    if authorizer is None:
        why = "No Authorizer is configured on the broker"
        return DescribeAclsResponse(error_code=NO_AUTHORIZER.code, error_message=why)
    wanted = acl_filter(
        AclText(
            body.resource_type_filter,
            body.resource_name_filter,
            body.pattern_type_filter,
            body.principal_filter,
            body.host_filter,
            body.operation,
            body.permission_type,
        )
    )
    if isinstance(wanted, Refusal):
        return DescribeAclsResponse(error_code=wanted.code, error_message=wanted.why)
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                resource_type=kind,
                resource_name=name,
                pattern_type=pattern,
                acls=[
                    AclDescription(
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in acls
                ],
            )
            for (kind, name, pattern), acls in groupby(
                authorizer.acls(wanted), key=lambda acl: acl[:3]
            )
        ],
    )


def create(
    context: AdminContext, request: Request[CreateAclsRequest]
) -> CreateAclsResponse | Later:
    """Each rule for itself; all that can be added take effect together."""
    rules = [
        AclText(
            each.resource_type,
            each.resource_name,
            each.resource_pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission_type,
        )
        for each in request.body.creations
    ]

    def decide(controller: Controller) -> ControllerResult[list[Refusal | None]]:
        if context.authorization.authorizer is None:
            return ControllerResult((), [NO_AUTHORIZER for _ in rules])
        return controller.create_acls(rules)

    return context.control.decide(
        request, decide, _created, lambda refusal: _created([refusal for _ in rules])
    )


def _created(outcome: list[Refusal | None]) -> CreateAclsResponse:
    return CreateAclsResponse(
        results=[
            AclCreationResult(error_message=None)
            if refusal is None
            else AclCreationResult(error_code=refusal.code, error_message=refusal.why)
            for refusal in outcome
        ]
    )


def delete(
    context: AdminContext, request: Request[DeleteAclsRequest]
) -> DeleteAclsResponse | Later:
    """Each filter for itself; all that they mean goes together."""
    filters = [
        AclText(
            each.resource_type_filter,
            each.resource_name_filter,
            each.pattern_type_filter,
            each.principal_filter,
            each.host_filter,
            each.operation,
            each.permission_type,
        )
        for each in request.body.filters
    ]

    def decide(controller: Controller) -> ControllerResult[list[list[Acl] | Refusal]]:
        if context.authorization.authorizer is None:
            return ControllerResult((), [NO_AUTHORIZER for _ in filters])
        return controller.delete_acls(filters)

    return context.control.decide(
        request, decide, _deleted, lambda refusal: _deleted([refusal for _ in filters])
    )


def _deleted(outcome: list[list[Acl] | Refusal]) -> DeleteAclsResponse:
    return DeleteAclsResponse(
        filter_results=[
            DeleteAclsFilterResult(error_code=found.code, error_message=found.why)
            if isinstance(found, Refusal)
            else DeleteAclsFilterResult(
                error_message=None,
                matching_acls=[
                    DeleteAclsMatchingAcl(
                        error_message=None,
                        resource_type=acl.resource_type,
                        resource_name=acl.resource_name,
                        pattern_type=acl.pattern_type,
                        principal=acl.principal,
                        host=acl.host,
                        operation=acl.operation,
                        permission_type=acl.permission,
                    )
                    for acl in found
                ],
            )
            for found in outcome
        ]
    )
