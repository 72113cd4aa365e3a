"""Requests that need one permission on the cluster, where no decision of the controller asks it.

Invariant  Without an authorizer a handler is what it was: nothing stands before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from tidelog.model.errors import ErrorCode
from tidelog.node.core.authorization import Authorization
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.fetch import encode_fetch_response
from tidelog.protocol.message import ResponseMessage
from tidelog.security.acls import AclOperation

ContextT = TypeVar("ContextT")
BodyT = TypeVar("BodyT")

DENIED = ErrorCode.cluster_authorization_failed


class MakeRefusal(Protocol):
    """The class of a response with one error for the whole request."""

    def __call__(self, *, error_code: ErrorCode) -> ResponseMessage: ...


def guarded(
    authorization: Authorization,
    handle: Callable[[ContextT, Request[BodyT]], Reply],
    refused: MakeRefusal,
) -> Callable[[ContextT, Request[BodyT]], Reply]:
    """The handler behind the permission that its API needs for a whole request."""
    if authorization.authorizer is None:
        return handle

    def checked(context: ContextT, request: Request[BodyT]) -> Reply:
        if not authorization.allows_whole(request):
            return refused(error_code=DENIED)
        return handle(context, request)

    return checked


def guarded_fetch(
    authorization: Authorization, handle: Callable[[ContextT, Request[BodyT]], Reply]
) -> Callable[[ContextT, Request[BodyT]], Reply]:
    """The same for Fetch where only nodes of the cluster may fetch: of the metadata log."""
    if authorization.authorizer is None:
        return handle

    def checked(context: ContextT, request: Request[BodyT]) -> Reply:
        if not authorization.allows_on_cluster(request, AclOperation.CLUSTER_ACTION):
            return encode_fetch_response(
                request.api_version, request.correlation_id, DENIED, 0, [], [], 0
            )
        return handle(context, request)

    return checked
