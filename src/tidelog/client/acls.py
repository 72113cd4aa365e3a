"""Access control lists, through a `Client`.

Invariant  Every method either did what it was asked, or raises the broker's refusal in words.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.client.blocking import Client
from tidelog.client.errors import BrokenConversation, require_accepted
from tidelog.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from tidelog.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from tidelog.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from tidelog.security.acls import (
    Acl,
    AclFilter,
    AclOperation,
    AclPermission,
    PatternType,
    ResourceType,
)


class Acls:
    """The rules of a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The rules that a filter means."""
        request = DescribeAclsRequest(
            resource_type_filter=wanted.resource_type,
            resource_name_filter=wanted.resource_name,
            pattern_type_filter=wanted.pattern_type,
            principal_filter=wanted.principal,
            host_filter=wanted.host,
            operation=wanted.operation,
            permission_type=wanted.permission,
        )

        def attempt() -> DescribeAclsResponse:
            answer = self._client.any_connection().call(request)
            require_accepted(answer, "access control lists")
            return answer

        return sorted(
            _acl(
                resource.resource_type,
                resource.resource_name,
                resource.pattern_type,
                acl.principal,
                acl.host,
                acl.operation,
                acl.permission_type,
            )
            for resource in self._client.retrying(attempt).resources
            for acl in resource.acls
        )

    def create(self, acls: Sequence[Acl]) -> None:
        """Add rules; those that are there stay."""
        request = CreateAclsRequest(
            creations=[
                AclCreation(
                    resource_type=acl.resource_type,
                    resource_name=acl.resource_name,
                    resource_pattern_type=acl.pattern_type,
                    principal=acl.principal,
                    host=acl.host,
                    operation=acl.operation,
                    permission_type=acl.permission,
                )
                for acl in acls
            ]
        )

        def attempt() -> None:
            answer = self._client.any_connection().call(request)
            for acl, result in zip(acls, answer.results, strict=True):
                require_accepted(result, str(acl))

        self._client.retrying(attempt)

    def delete(self, filters: Iterable[AclFilter]) -> list[Acl]:
        """Remove what the filters mean; what that was."""
        request = DeleteAclsRequest(
            filters=[
                DeleteAclsFilter(
                    resource_type_filter=wanted.resource_type,
                    resource_name_filter=wanted.resource_name,
                    pattern_type_filter=wanted.pattern_type,
                    principal_filter=wanted.principal,
                    host_filter=wanted.host,
                    operation=wanted.operation,
                    permission_type=wanted.permission,
                )
                for wanted in filters
            ]
        )

        def attempt() -> DeleteAclsResponse:
            answer = self._client.any_connection().call(request)
            for result in answer.filter_results:
                require_accepted(result, "access control lists")
            return answer

        return sorted(
            {
                _acl(
                    acl.resource_type,
                    acl.resource_name,
                    acl.pattern_type,
                    acl.principal,
                    acl.host,
                    acl.operation,
                    acl.permission_type,
                )
                for result in self._client.retrying(attempt).filter_results
                for acl in result.matching_acls
            }
        )


def _acl(
    kind: int, name: str, pattern: int, principal: str, host: str, operation: int, permission: int
) -> Acl:
    try:
        return Acl(
            ResourceType(kind),
            name,
            PatternType(pattern),
            principal,
            host,
            AclOperation(operation),
            AclPermission(permission),
        )
    except ValueError as error:
        raise BrokenConversation(f"a rule that cannot be read: {error}") from error
