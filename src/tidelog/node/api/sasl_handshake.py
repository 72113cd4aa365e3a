"""SaslHandshake (key 17, versions 0-1): by which mechanism a peer proves who it is.

After version 0 tokens come bare, after version 1 in SaslAuthenticate. On a connection whose peer
need not prove anything, or has done so just now, the answer is that this is not the moment.
"""

from __future__ import annotations

from tidelog.model.errors import ErrorCode
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse


def handle(_: None, request: Request[SaslHandshakeRequest]) -> SaslHandshakeResponse | Later:
    """Begin an exchange, if the mechanism is offered."""
    authentication = request.connection.authentication
    if authentication is None or not authentication.may_begin(request.now):
        return SaslHandshakeResponse(error_code=ErrorCode.illegal_sasl_state)
    refused = authentication.begin(request.body.mechanism, request.api_version, request.now)
    if refused is None:
        return SaslHandshakeResponse(mechanisms=authentication.mechanisms)
    answer = SaslHandshakeResponse(
        error_code=ErrorCode.unsupported_sasl_mechanism, mechanisms=authentication.mechanisms
    )
    later = request.park()
    authentication.close_later(request.now, lambda: request.answer(answer))
    return later
