"""A node proves to another one who it is: SaslHandshake, then tokens in SaslAuthenticate.

Invariant  One question is open at a time, and the exchange has a bounded time.
Invariant  It is complete only when the peer has proved itself, where the mechanism can.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.model.time import Now
from tidelog.node.core.deadlines import Deadline, Deadlines
from tidelog.protocol import codec
from tidelog.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.protocol.parts import Part
from tidelog.security.exchange import AuthenticationFailed, SaslClient

WITHIN_MS: Final = 10_000
HANDSHAKE_VERSION: Final = 1
TOKEN_VERSION: Final = 1
_RENEW_EARLIEST_MS: Final = 1_000
"""Who proves himself anew sooner is refused, as by Apache Kafka."""
_RENEW_AT: Final = 0.8
"""A proof is renewed when so much of its time is over."""


class Login:
    """One exchange with a peer."""

    def __init__(
        self,
        mechanism: str,
        client: SaslClient,
        deadlines: Deadlines,
        too_late: Callable[[Now], None],
        now: Now,
    ) -> None:
        self._mechanism = mechanism
        self._client = client
        self._deadline: Deadline = deadlines.at(now.monotonic_ms + WITHIN_MS, too_late)
        self._asked = 0
        self.renew_after_ms: int | None = None
        """Once it is complete: when to prove it anew; None for never."""

    def begin(self, client_id: str) -> list[Part]:
        """The first request."""
        request = SaslHandshakeRequest(mechanism=self._mechanism)
        return [codec.encode_request(request, HANDSHAKE_VERSION, self._asked, client_id)]

    def end(self) -> None:
        """It is over, one way or the other."""
        self._deadline.cancel()

    def answered(self, frame: memoryview, client_id: str) -> list[Part] | None:
        """The next request, after an answer of the peer; None when the exchange is complete."""
        asked, self._asked = self._asked, self._asked + 1
        if asked == 0:
            number, shaken = codec.decode_response(SaslHandshakeResponse, HANDSHAKE_VERSION, frame)
            _require(number == asked, "it answers another question")
            _require(
                shaken.error_code is ErrorCode.none,
                f"{self._mechanism} is not offered, but {', '.join(shaken.mechanisms)}",
            )
            return self._token(self._client.begin(), client_id)
        number, answer = codec.decode_response(SaslAuthenticateResponse, TOKEN_VERSION, frame)
        _require(number == asked, "it answers another question")
        _require(answer.error_code is ErrorCode.none, answer.error_message or "no reason is given")
        token = self._client.respond(bytes(answer.auth_bytes))
        if token is not None:
            return self._token(token, client_id)
        _require(self._client.is_complete, "the exchange ended too early")
        if answer.session_lifetime_ms > 0:
            after_ms = int(answer.session_lifetime_ms * _RENEW_AT)
            self.renew_after_ms = max(after_ms, _RENEW_EARLIEST_MS)
        return None

    def _token(self, token: bytes, client_id: str) -> list[Part]:
        request = SaslAuthenticateRequest(auth_bytes=token)
        return [codec.encode_request(request, TOKEN_VERSION, self._asked, client_id)]


def _require(holds: bool, why: str) -> None:
    if not holds:
        raise AuthenticationFailed(why)
