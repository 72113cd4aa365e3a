"""Envelope (key 58, version 0): a request that a broker passes on for its client (KIP-590).

The enclosed request is answered as if its client had asked here, and its answer, header and all,
travels back enclosed.

Invariant  That this node is not the controller, or no longer, is said by the envelope itself: the
           broker then asks the next one, and its client hears nothing of it.
Invariant  Who asks is who the envelope names, not the broker that passes it on; an envelope that
           names nobody is opened by nobody.
"""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import ip_address
from typing import Final, NamedTuple, TypeVar

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.principal import Principal
from tidelog.model.time import Now
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.core.connections import Connection
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.core.request import Answer, Later, Request, encode_answer
from tidelog.node.core.routes import Routes
from tidelog.protocol.apis import FORWARDED
from tidelog.protocol.forwarded_principal import read_principal
from tidelog.protocol.frame import MalformedRequest, RequestHeader, read_request_header
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.parts import joined

BodyT = TypeVar("BodyT")
BodyT_co = TypeVar("BodyT_co", covariant=True)

NOT_HERE: Final = EnvelopeResponse(error_code=ErrorCode.not_controller)
UNREADABLE: Final = EnvelopeResponse(error_code=ErrorCode.invalid_request)
NOBODY: Final = EnvelopeResponse(error_code=ErrorCode.principal_deserialization_failure)


class EnvelopeContext(NamedTuple):
    """The controller that decides what is enclosed, and who answers it."""

    plane: ControlPlane
    routes: Routes


class EnclosedRequest(Request[BodyT_co]):
    """The request in an envelope; its answer goes into the envelope's."""

    __slots__ = ("_client_host", "_outer", "_principal")

    def __init__(
        self,
        outer: Request[EnvelopeRequest],
        principal: Principal,
        client_host: str,
        header: RequestHeader,
        body: BodyT_co,
        frame: memoryview,
    ) -> None:
        super().__init__(outer.now, outer.connection, header, body, frame)
        self._outer = outer
        self._principal = principal
        self._client_host = client_host

    @property
    def principal(self) -> Principal:
        return self._principal

    @property
    def client_host(self) -> str:
        return self._client_host

    @property
    def is_enclosed(self) -> bool:
        return True

    def park(self) -> Later:
        return self._outer.park()

    def throttle(self, now: Now, time_ms: int, deadlines: Deadlines) -> None:
        """The answer says it; whoever passed the request on stops reading its client."""

    def answer(self, reply: Answer) -> None:
        self._outer.answer(_enclosed(reply, self.api_version, self.correlation_id))

    def refuse(self, refusal: Refusal, refused: Callable[[Refusal], Answer]) -> None:
        if refusal.code is ErrorCode.not_controller:
            self._outer.answer(NOT_HERE)
        else:
            super().refuse(refusal, refused)


def _enclosed(answer: Answer, version: int, correlation_id: int) -> EnvelopeResponse:
    """The envelope around an answer."""
    return EnvelopeResponse(response_data=joined(encode_answer(answer, version, correlation_id)))


def handle(context: EnvelopeContext, request: Request[EnvelopeRequest]) -> EnvelopeResponse | Later:
    """Open the envelope and let the enclosed request be handled."""
    if not context.plane.is_active:
        return NOT_HERE
    frame = memoryview(request.body.request_data)
    try:
        header = read_request_header(frame)
    except MalformedRequest:
        return UNREADABLE
    if header.api_key not in FORWARDED:
        return UNREADABLE
    try:
        principal = read_principal(request.body.request_principal or b"")
    except MalformedRequest:
        return NOBODY
    try:
        client_host = str(ip_address(request.body.client_host_address))
    except ValueError:
        return UNREADABLE

    def enclosed(
        now: Now, connection: Connection, header: RequestHeader, body: BodyT, frame: memoryview
    ) -> Request[BodyT]:
        return EnclosedRequest(request, principal, client_host, header, body, frame)

    route = context.routes[header.api_key]
    reply = route(enclosed, request.now, request.connection, header, frame)
    if isinstance(reply, MalformedRequest):
        return UNREADABLE
    if isinstance(reply, Later):
        return reply
    return _enclosed(reply, header.api_version, header.correlation_id)
