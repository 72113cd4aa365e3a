"""A blocking connection to one broker: a socket around a `Session`.

Invariant  After any failure the connection is closed; it never hands out the answer to an older
           question.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from typing import Any

from tidelog import __version__
from tidelog.client.errors import BrokenConversation, ClientError, Unreachable
from tidelog.client.session import Answer, BodyEncoder, Decoder, Session
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.message import RequestMessage, ResponseT

_RECEIVE_BYTES = 262_144


class Connection:
    """Connects and greets when made; `call` asks and waits."""

    def __init__(self, host: str, port: int, *, client_id: str, timeout_s: float) -> None:
        self.host, self.port = host, port
        self.timeout_s = timeout_s
        self.session = Session(client_id, software_version=__version__)
        try:
            self._socket = socket.create_connection((host, port), timeout=timeout_s)
        except OSError as error:
            raise Unreachable(f"cannot reach {host}:{port}: {_reason(error)}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._answers: list[Answer] = []
        self.session.greet()
        self._exchange(lambda: self.session.ready, timeout_s)
        self._answers.clear()

    @property
    def is_open(self) -> bool:
        return self._socket.fileno() >= 0

    def call(
        self, request: RequestMessage[ResponseT], *, timeout_s: float | None = None
    ) -> ResponseT:
        """Ask and wait for the answer."""
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
        asked = self.session.ask_with(api_key, encode_body, decode)
        if decode is None:
            self._exchange(lambda: True, timeout_s)
            return None
        return self._answer_to(asked, timeout_s)

    def close(self) -> None:
        self._socket.close()

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
