"""What requests may do here: asked by whoever serves one, answered by the cluster's rules.

Without an authorizer everything is allowed, and nothing is looked up: every question here is one
comparison then.

Invariant  A question names the principal and the address of the very request that is served, also
           of one that came in an envelope.
Invariant  Rules hold as soon as this node has applied them: the metadata's records are all there
           is, and nothing is remembered beyond the next of them.
Invariant  Before any metadata is known only super users are served.
Invariant  Every denial that withholds what was asked for is told; a client never hears why.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.principal import Principal
from tidelog.node.core.denials import Denials
from tidelog.node.core.permissions import ON_CLUSTER
from tidelog.node.core.request import Request
from tidelog.node.core.runtime import Runtime
from tidelog.security.acls import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AclOperation,
    ResourceType,
)
from tidelog.security.authorizer import Action, Authorizer

_NOTHING: Final[frozenset[str]] = frozenset()
EVERY_OPERATION: Final = {
    kind: sum(1 << operation for operation in operations)
    for kind, operations in SUPPORTED_OPERATIONS.items()
}
CLUSTER_DENIED: Final = Refusal(
    ErrorCode.cluster_authorization_failed, "Cluster authorization failed."
)
TOPIC_DENIED: Final = Refusal(ErrorCode.topic_authorization_failed, "Topic authorization failed.")
GROUP_DENIED: Final = Refusal(ErrorCode.group_authorization_failed, "Group authorization failed.")
DENIED: Final = {
    ResourceType.CLUSTER: CLUSTER_DENIED,
    ResourceType.TOPIC: TOPIC_DENIED,
    ResourceType.GROUP: GROUP_DENIED,
}


class Authorization:
    """The door of a node. `authorizer` is None where everybody may do everything."""

    __slots__ = ("_denials", "authorizer", "is_loaded")

    def __init__(self, runtime: Runtime, authorizer: Authorizer | None) -> None:
        self.authorizer = authorizer
        self.is_loaded = authorizer is None
        """Whether the rules of the cluster are known."""
        self._denials = None if authorizer is None else Denials(runtime, authorizer)

    def is_ready_for(self, principal: Principal) -> bool:
        """Whether it can be said what somebody may do."""
        authorizer = self.authorizer
        return self.is_loaded or authorizer is None or authorizer.is_super_user(principal)

    def allows(
        self,
        request: Request[object],
        operation: AclOperation,
        kind: ResourceType,
        name: str,
        *,
        quietly: bool = False,
    ) -> bool:
        """Whether a request may do this; `quietly` if it did not ask for it in so many words."""
        authorizer = self.authorizer
        if authorizer is None:
            return True
        action = Action(request.principal, request.client_host, operation, kind, name)
        if authorizer.allows(action):
            return True
        if not quietly and self._denials is not None:
            self._denials.note(action, request.api_key)
        return False

    def allows_on_cluster(
        self, request: Request[object], operation: AclOperation, *, quietly: bool = False
    ) -> bool:
        """Whether a request may do this to the cluster."""
        if self.authorizer is None:
            return True
        return self.allows(request, operation, ResourceType.CLUSTER, CLUSTER_NAME, quietly=quietly)

    def allows_whole(self, request: Request[object]) -> bool:
        """Whether a request may be served at all, where one permission decides that."""
        if self.authorizer is None:
            return True
        needed = ON_CLUSTER.get(request.api_key)
        return needed is None or self.allows_on_cluster(request, needed)

    def denied(
        self,
        request: Request[object],
        operation: AclOperation,
        kind: ResourceType,
        names: Iterable[str],
        *,
        quietly: bool = False,
    ) -> frozenset[str]:
        """The names to which a request may not do this."""
        if self.authorizer is None:
            return _NOTHING
        return frozenset(
            name
            for name in dict.fromkeys(names)
            if not self.allows(request, operation, kind, name, quietly=quietly)
        )

    def allows_some(
        self, request: Request[object], operation: AclOperation, kind: ResourceType
    ) -> bool:
        """Whether there is a resource of this kind to which a request may do this."""
        authorizer = self.authorizer
        return authorizer is None or authorizer.allows_some(
            request.principal, request.client_host, operation, kind
        )

    def operations(self, request: Request[object], kind: ResourceType, name: str) -> int:
        """All that a request may do to a resource, as a bit for each operation."""
        if self.authorizer is None:
            return EVERY_OPERATION[kind]
        return sum(
            1 << operation
            for operation in SUPPORTED_OPERATIONS[kind]
            if self.allows(request, operation, kind, name, quietly=True)
        )

    def cluster_operations(self, request: Request[object]) -> int:
        """All that a request may do to the cluster, if it may describe it."""
        if not self.allows_on_cluster(request, AclOperation.DESCRIBE):
            return 0
        return self.operations(request, ResourceType.CLUSTER, CLUSTER_NAME)
