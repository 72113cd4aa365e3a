"""A blocking connection to one broker: a socket around a `Session`.

Invariant  After any failure the connection is closed; it never hands out the answer to an older
           question.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from tidelog import __version__
from tidelog.client.errors import (
    BrokenConversation,
    ClientError,
    RequestRefused,
    Unreachable,
)
from tidelog.client.session import Answer, BodyEncoder, Decoder, Session
from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from tidelog.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from tidelog.security.exchange import AuthenticationFailed, SaslClient

if TYPE_CHECKING:
    from tidelog.client.security import ClientSecurity

_RECEIVE_BYTES = 262_144
_RENEW_AT = 0.8
"""A login is renewed when so much of its time is over."""


class Connection:
    """Connects, greets and logs in when made; `call` asks and waits."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        client_id: str,
        timeout_s: float,
        security: ClientSecurity | None = None,
    ) -> None:
        self.host, self.port = host, port
        self.timeout_s = timeout_s
        self._security = security
        self._renew_at_s: float | None = None
        self.session = Session(client_id, software_version=__version__)
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise Unreachable(f"cannot reach {host}:{port}: {_reason(error)}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers: list[Answer] = []
        if security is not None:
            self._secure(security)
        self.session.greet()
        self._exchange(lambda: self.session.ready, timeout_s)
        self._answers.clear()
        self._log_in()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def call(
        self, request: RequestMessage[ResponseT], *, timeout_s: float | None = None
    ) -> ResponseT:
        """Ask and wait for the answer."""
        self._log_in_again_if_due()
        asked = self.session.ask(request)
        response: ResponseT = self._answer_to(asked, timeout_s)
        return response

    def call_with(
        self,
        api_key: ApiKey,
        encode_body: BodyEncoder,
        decode: Decoder | None,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        """Ask with an encoding of its own; returns None at once when no answer will come."""
        self._log_in_again_if_due()
        asked = self.session.ask_with(api_key, encode_body, decode)
        if decode is None:
            self._exchange(lambda: True, timeout_s)
            return None
        return self._answer_to(asked, timeout_s)

    def close(self) -> None:
        self._socket.close()

    def _secure(self, security: ClientSecurity) -> None:
        below = self._socket
        try:
            self._socket = security.secured(below, self.host)
        except OSError as error:
            below.close()
            raise Unreachable(
                f"{self.host}:{self.port} cannot be spoken to with TLS: {_reason(error)}"
            ) from error

    def _log_in(self) -> None:
        """Prove who we are, where that is wanted."""
        security = self._security
        if security is None or security.mechanism is None:
            return
        handshake = SaslHandshakeRequest(mechanism=security.mechanism)
        shaken: SaslHandshakeResponse = self._answer_to(self.session.ask(handshake), None)
        if shaken.error_code is not ErrorCode.none:
            self.close()
            offered = ", ".join(shaken.mechanisms) or "nothing"
            raise RequestRefused(
                shaken.error_code, self._where, f"it offers {offered}, not {security.mechanism}"
            )
        exchange = security.begin_login()
        token: bytes | None = exchange.begin()
        lifetime_ms = 0
        while token is not None:
            request = SaslAuthenticateRequest(auth_bytes=token)
            answer: SaslAuthenticateResponse = self._answer_to(self.session.ask(request), None)
            if answer.error_code is not ErrorCode.none:
                self.close()
                raise RequestRefused(answer.error_code, self._where, answer.error_message)
            token = self._next_token(exchange, bytes(answer.auth_bytes))
            lifetime_ms = answer.session_lifetime_ms
        renew_after_s = lifetime_ms * _RENEW_AT / 1000
        self._renew_at_s = time.monotonic() + renew_after_s if lifetime_ms else None

    def _next_token(self, exchange: SaslClient, token: bytes) -> bytes | None:
        try:
            following = exchange.respond(token)
        except AuthenticationFailed as error:
            self.close()
            raise BrokenConversation(f"{self._where} is not to be trusted: {error}") from error
        if following is None and not exchange.is_complete:
            self.close()
            raise BrokenConversation(f"{self._where} ended the login too early")
        return following

    def _log_in_again_if_due(self) -> None:
        if self._renew_at_s is not None and time.monotonic() >= self._renew_at_s:
            self._log_in()

    @property
    def _where(self) -> str:
        return f"{self.host}:{self.port}"

    def _answer_to(self, asked: int, timeout_s: float | None) -> Any:
        self._exchange(lambda: bool(self._answers), timeout_s)
        answer = self._answers.pop(0)
        if answer.correlation_id != asked:
            self.close()
            raise BrokenConversation(f"{self.host}:{self.port} answered another question")
        return answer.body

    def _exchange(self, done: Callable[[], bool], timeout_s: float | None) -> None:
        limit_s = self.timeout_s if timeout_s is None else timeout_s
        deadline = time.monotonic() + limit_s
        try:
            self._send(deadline)
            while not done():
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                data = self._socket.recv(_RECEIVE_BYTES)
                if not data:
                    raise Unreachable(f"{self.host}:{self.port} closed the connection")
                self._answers += self.session.receive(data)
                self._send(deadline)
        except TimeoutError as error:
            self.close()
            raise Unreachable(
                f"{self.host}:{self.port} did not answer within {limit_s:g} s"
            ) from error
        except OSError as error:
            self.close()
            raise Unreachable(f"lost {self.host}:{self.port}: {_reason(error)}") from error
        except ClientError:
            self.close()
            raise

    def _send(self, deadline: float) -> None:
        if data := self.session.data_to_send():
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            self._socket.sendall(data)


def _reason(error: OSError) -> str:
    return "timed out" if isinstance(error, TimeoutError) else error.strerror or str(error)
