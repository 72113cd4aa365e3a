"""DescribeUserScramCredentials (key 50, version 0): who has credentials, of which mechanisms."""

from __future__ import annotations

from tidelog.controller.scram_credentials import describe_scram_credentials
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: ClusterContext, request: Request[DescribeUserScramCredentialsRequest]
) -> DescribeUserScramCredentialsResponse:
    """By what this node knows; nothing that anybody could log in with."""
    if not context.authorization.allows_whole(request):
        return _denied(len(request.body.users or ()))
    named = None if request.body.users is None else [user.name for user in request.body.users]
    described = describe_scram_credentials(context.cluster.image, named)
    return DescribeUserScramCredentialsResponse(
        error_message=None, results=[_result(user, found) for user, found in described.items()]
    )


def _denied(users: int) -> DescribeUserScramCredentialsResponse:
    """As Apache Kafka has it: the error for each user that was asked for, who is not named."""
    code = ErrorCode.cluster_authorization_failed
    refused = DescribeUserScramCredentialsResult(error_code=code, error_message=None)
    return DescribeUserScramCredentialsResponse(
        error_code=code, error_message=None, results=[refused] * users
    )


def _result(
    user: str, found: list[tuple[int, int]] | Refusal
) -> DescribeUserScramCredentialsResult:
    if isinstance(found, Refusal):
        return DescribeUserScramCredentialsResult(
            user=user, error_code=found.code, error_message=found.why
        )
    return DescribeUserScramCredentialsResult(
        user=user,
        error_message=None,
        credential_infos=[
            CredentialInfo(mechanism=mechanism, iterations=iterations)
            for mechanism, iterations in found
        ],
    )
