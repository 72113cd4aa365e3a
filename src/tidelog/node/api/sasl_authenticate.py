"""SaslAuthenticate (key 36, versions 0-2): one token of an exchange.

The last answer says how long the proof is good. A failure is answered after a while, then the
connection is closed; the answer does not say whether there is such a user.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.core.authentication import Failure
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)


def handle(_: None, request: Request[SaslAuthenticateRequest]) -> SaslAuthenticateResponse | Later:
    """Go on with the exchange that is under way."""
    authentication = request.connection.authentication
    if authentication is None or not authentication.is_proving:
        return SaslAuthenticateResponse(
            error_code=ErrorCode.illegal_sasl_state,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    token = bytes(request.body.auth_bytes)
    answer = authentication.take(token, request.now, version=request.api_version)
    if not isinstance(answer, Failure):
        return SaslAuthenticateResponse(
            error_message=None,
            auth_bytes=answer.token,
            session_lifetime_ms=answer.session_lifetime_ms,
        )
    refused = SaslAuthenticateResponse(
        error_code=ErrorCode.sasl_authentication_failed, error_message=answer.why
    )
    later = request.park()
    authentication.close_later(request.now, lambda: request.answer(refused))
    return later
