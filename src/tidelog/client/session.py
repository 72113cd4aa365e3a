"""One connection's conversation with a broker, without the connection.

Bytes come in through `receive`, answers go out of it; requests go in through `ask`, and what must
be sent waits in `data_to_send`. A shell that moves bytes (blocking sockets, an event loop, the
simulator's network) needs nothing else.

    session.greet()                     first: learn which versions the peer serves
    socket.sendall(session.data_to_send())
    answers = session.receive(bytes)    until `session.ready`
    asked = session.ask(MetadataRequest(topics=None))
    ...                                 an Answer whose `correlation_id` is `asked`

Invariant  Answers come in the order of the requests. One that does not carry the correlation id
           of the oldest open request raises `BrokenConversation`, and the connection is over.
Invariant  A request is written in the highest version that both sides know.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, NamedTuple

from tidelog.client.errors import BrokenConversation, RequestRefused
from tidelog.model.errors import ErrorCode, invariant
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.codec import decode_response, encode_request, request_header
from tidelog.protocol.frame import FRAME_LIMIT, FrameSplitter, MalformedRequest
from tidelog.protocol.message import RequestMessage
from tidelog.protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse

SOFTWARE_NAME: Final = "tidelog"
_CORRELATION_IDS: Final = 1 << 31

BodyEncoder = Callable[[int], bytes]
"""version -> the body of a request, without its header."""

Decoder = Callable[[int, memoryview], tuple[int, Any]]
"""(version, frame) -> (correlation id, body)."""


class Answer(NamedTuple):
    """The answer to one request; `body` has the shape its decoder gives it."""

    correlation_id: int
    api_key: ApiKey
    version: int
    body: Any


class Served(NamedTuple):
    """The versions of an API that the peer serves."""

    min: int
    max: int


class _Asked(NamedTuple):
    correlation_id: int
    api_key: ApiKey
    version: int
    decode: Decoder


class Session:
    """Correlation ids, version choice and framing for one connection."""

    def __init__(
        self,
        client_id: str | None,
        *,
        software_version: str = "0",
        response_limit: int = FRAME_LIMIT,
    ) -> None:
        self.client_id = client_id
        self._software_version = software_version
        self._frames = FrameSplitter(response_limit)
        self._open: deque[_Asked] = deque()
        self._outgoing: list[bytes] = []
        self._next_correlation_id = 0
        self._served: dict[int, Served] | None = None

    @property
    def ready(self) -> bool:
        """Whether the peer has said which versions it serves."""
        return self._served is not None

    @property
    def served(self) -> Mapping[int, Served]:
        """What the peer serves, by API key; empty before the greeting is answered."""
        return self._served or {}

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answer."""
        return len(self._open)

    def greet(self) -> None:
        """Ask for the peer's versions, in the newest version of the question."""
        self._greet(SUPPORTED[ApiKey.API_VERSIONS].max)

    def version_of(self, api_key: ApiKey, *, at_most: int | None = None) -> int:
        """The highest version of an API that both sides know; a refusal when there is none."""
        invariant(self._served is not None, "a session asks only after the greeting is answered")
        ours, theirs = SUPPORTED[api_key], self.served.get(int(api_key))
        what = api_key.name.replace("_", " ").capitalize()
        if theirs is None:
            raise RequestRefused(ErrorCode.unsupported_version, what)
        highest = min(ours.max, theirs.max, ours.max if at_most is None else at_most)
        if highest < max(ours.decodable_from, theirs.min):
            raise RequestRefused(
                ErrorCode.unsupported_version,
                what,
                f"the broker serves versions {theirs.min}-{theirs.max}, "
                f"we speak {ours.decodable_from}-{ours.max}",
            )
        return highest

    def ask(self, request: RequestMessage[Any], *, at_most: int | None = None) -> int:
        """Queue a request; its correlation id."""
        return self._ask(request, self.version_of(ApiKey(request.API_KEY), at_most=at_most))

    def ask_with(
        self,
        api_key: ApiKey,
        encode_body: BodyEncoder,
        decode: Decoder | None,
        *,
        at_most: int | None = None,
    ) -> int:
        """Queue a request with an encoding of its own; `decode` None when no answer will come."""
        version = self.version_of(api_key, at_most=at_most)
        correlation_id = self._take_correlation_id()
        flexible = version >= SUPPORTED[api_key].first_flexible
        header = request_header(api_key, version, correlation_id, self.client_id, flexible)
        asked = None if decode is None else _Asked(correlation_id, api_key, version, decode)
        self._queue(header + encode_body(version), asked)
        return correlation_id

    def data_to_send(self) -> bytes:
        """Everything queued since the last call, each frame with its length."""
        data = b"".join(self._outgoing)
        self._outgoing.clear()
        return data

    def receive(self, data: bytes | bytearray | memoryview) -> list[Answer]:
        """Take bytes from the peer; the answers they complete."""
        try:
            frames = self._frames.receive(data)
            return [answer for frame in frames if (answer := self._answer(frame)) is not None]
        except MalformedRequest as error:
            raise BrokenConversation(f"the peer sent an unreadable answer: {error}") from error

    def _greet(self, version: int) -> None:
        greeting = ApiVersionsRequest(
            client_software_name=SOFTWARE_NAME, client_software_version=self._software_version
        )
        self._ask(greeting, version)

    def _ask(self, request: RequestMessage[Any], version: int) -> int:
        correlation_id = self._take_correlation_id()
        message = encode_request(request, version, correlation_id, self.client_id)
        decode = partial(decode_response, request.RESPONSE)
        self._queue(message, _Asked(correlation_id, ApiKey(request.API_KEY), version, decode))
        return correlation_id

    def _take_correlation_id(self) -> int:
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) % _CORRELATION_IDS
        return correlation_id

    def _queue(self, message: bytes, asked: _Asked | None) -> None:
        self._outgoing.append(len(message).to_bytes(4, "big"))
        self._outgoing.append(message)
        if asked is not None:
            self._open.append(asked)

    def _answer(self, frame: memoryview) -> Answer | None:
        if not self._open:
            raise BrokenConversation("the peer sent an answer to a question nobody asked")
        asked = self._open.popleft()
        if asked.api_key is ApiKey.API_VERSIONS:
            return self._learn_versions(asked, frame)
        correlation_id, body = asked.decode(asked.version, frame)
        _require_order(correlation_id, asked.correlation_id)
        return Answer(correlation_id, asked.api_key, asked.version, body)

    def _learn_versions(self, asked: _Asked, frame: memoryview) -> Answer | None:
        # A peer that does not know our version answers in version 0, whatever we asked in.
        refused = int.from_bytes(frame[4:6], "big") == ErrorCode.unsupported_version
        version = 0 if refused else asked.version
        correlation_id, body = decode_response(ApiVersionsResponse, version, frame)
        _require_order(correlation_id, asked.correlation_id)
        served = {api.api_key: Served(api.min_version, api.max_version) for api in body.api_keys}
        if refused:
            theirs = served.get(ApiKey.API_VERSIONS, Served(0, 0))
            if asked.version == 0 or theirs.max >= asked.version:
                raise BrokenConversation("the peer refuses every version of ApiVersions")
            self._greet(theirs.max)
            return None
        if body.error_code is not ErrorCode.none:
            raise RequestRefused(body.error_code, "ApiVersions")
        self._served = served
        return Answer(correlation_id, asked.api_key, version, body)


def _require_order(given: int, expected: int) -> None:
    if given != expected:
        raise BrokenConversation(f"the peer answered request {given} instead of {expected}")
