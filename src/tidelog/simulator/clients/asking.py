"""A client that asks and is answered: correlation and decoding for those that speak to brokers.

Invariant  Whatever was asked gets its answer in the order of asking, or `Lost`, exactly once;
           a broker that answers out of order breaks the rule `order`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.codec import decode_response, encode_request, request_header
from tidelog.protocol.fetch import FetchRequest, decode_fetch_response, encode_fetch
from tidelog.protocol.message import RequestMessage, ResponseT
from tidelog.protocol.primitives import Buffer
from tidelog.protocol.produce import decode_produce_response, encode_produce
from tidelog.simulator.clients.client import Client
from tidelog.simulator.rules.violation import Violation

ProduceTopics: TypeAlias = Sequence[
    tuple[str | None, UUID | None, Sequence[tuple[int, Buffer | None]]]
]
"""Name, identity, and the batch for each partition."""

_CORRELATION_IDS: Final = 1 << 31


class Lost(NamedTuple):
    """There will be no answer: what was asked may have been done or not."""

    reason: str


Then: TypeAlias = Callable[[Any], None]
"""Gets the response to what was asked, or `Lost`."""


class _Asked(NamedTuple):
    correlation_id: int
    decode: Callable[[memoryview], Any]
    then: Then


class AskingClient(Client):
    """Base of clients that talk to brokers; an override of `on_closed` calls this one first."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._asked: dict[int, deque[_Asked]] = {}
        self._next_correlation_id = 0

    def ask(self, connection: int, request: RequestMessage[Any], version: int, then: Then) -> None:
        """Ask in this version."""
        number = self._take_correlation_id()
        frame = encode_request(request, version, number, self.name)
        self._send(
            connection, number, frame, partial(decode_answer, request.RESPONSE, version), then
        )

    def ask_again(
        self, connection: int, request: bytes, decode: Callable[[memoryview], Any], then: Then
    ) -> None:
        """Send a request as it was sent before, but for its correlation id."""
        number = self._take_correlation_id()
        again = request[:4] + number.to_bytes(4, "big") + request[8:]
        self._send(connection, number, again, decode, then)

    def ask_produce(
        self,
        connection: int,
        version: int,
        topics: ProduceTopics,
        then: Then | None,
        *,
        acks: int,
        timeout_ms: int = 30_000,
        transactional_id: str | None = None,
    ) -> None:
        """Ask to append; `then` is None for acks=0, which is not answered."""
        number = self._take_correlation_id()
        header = self._header(ApiKey.PRODUCE, version, number)
        request = header + encode_produce(version, transactional_id, acks, timeout_ms, topics)
        if then is None:
            self.send(connection, request)
            return
        self._send(connection, number, request, partial(_decode_produce, version), then)

    def ask_fetch(self, connection: int, version: int, request: FetchRequest, then: Then) -> None:
        """Ask for records."""
        number = self._take_correlation_id()
        frame = self._header(ApiKey.FETCH, version, number) + encode_fetch(version, request)
        self._send(connection, number, frame, partial(_decode_fetch, version), then)

    def waiting(self, connection: int) -> int:
        """Questions of a connection that have no answer yet."""
        return len(self._asked.get(connection, ()))

    def on_frame(self, connection: int, frame: memoryview) -> None:
        asked = self._asked.get(connection)
        given = int.from_bytes(frame[:4], "big")
        if not asked or asked[0].correlation_id != given:
            expected = asked[0].correlation_id if asked else "nothing"
            raise Violation("order", f"{self.name} got answer {given} instead of {expected}")
        oldest = asked.popleft()
        oldest.then(oldest.decode(frame))

    def on_closed(self, connection: int, reason: str) -> None:
        for asked in self._asked.pop(connection, ()):
            asked.then(Lost(reason))

    def hang_up(self, connection: int) -> None:
        """Close a connection; what it still owed is lost."""
        super().hang_up(connection)
        for asked in self._asked.pop(connection, ()):
            asked.then(Lost("hung up"))

    def _take_correlation_id(self) -> int:
        number = self._next_correlation_id
        self._next_correlation_id = (number + 1) % _CORRELATION_IDS
        return number

    def _header(self, api_key: ApiKey, version: int, number: int) -> bytes:
        flexible = version >= SUPPORTED[api_key].first_flexible
        return request_header(api_key, version, number, self.name, flexible)

    def _send(
        self,
        connection: int,
        number: int,
        request: bytes,
        decode: Callable[[memoryview], Any],
        then: Then,
    ) -> None:
        self._asked.setdefault(connection, deque()).append(_Asked(number, decode, then))
        self.send(connection, request)


def decode_answer(response: type[ResponseT], version: int, frame: memoryview) -> ResponseT:
    """An answer without its header."""
    return decode_response(response, version, frame)[1]


def _decode_produce(version: int, frame: memoryview) -> Any:
    return decode_produce_response(frame, version)


def _decode_fetch(version: int, frame: memoryview) -> Any:
    return decode_fetch_response(frame, version)
