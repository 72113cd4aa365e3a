"""Envelope (key 58, version 0): a request that a broker passes on for its client (KIP-590).

The enclosed request is answered as if its client had asked here, and its answer, header and all,
travels back enclosed.

Invariant  That this node is not the controller, or no longer, is said by the envelope itself: the
           broker then asks the next one, and its client hears nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.control.control_plane import ControlPlane
from tidelog.node.core.request import Answer, Later, Request
from tidelog.node.core.routes import Routes
from tidelog.protocol.apis import FORWARDED
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.messages.envelope import EnvelopeRequest, EnvelopeResponse
from tidelog.protocol.parts import joined

NOT_HERE: Final = EnvelopeResponse(error_code=ErrorCode.not_controller)


class EnvelopeContext(NamedTuple):
    """The controller that decides what is enclosed, and who answers it."""

    plane: ControlPlane
    routes: Routes


class EnclosedRequest(Request[object]):
    """The request in an envelope; its answer goes into the envelope's."""

    __slots__ = ("_outer",)

    def __init__(self, outer: Request[EnvelopeRequest], routes: Routes, frame: memoryview) -> None:
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        if key not in FORWARDED:
            raise MalformedRequest(f"{key.name} is not passed on")
        body = routes[key].decode(frame[header.body_offset :], version)
        super().__init__(
            outer.now,
            outer.connection,
            key,
            version,
            header.correlation_id,
            header.client_id,
            body,
            frame,
        )
        self._outer = outer

    def park(self) -> Later:
        return self._outer.park()

    def answer(self, reply: Answer) -> None:
        self._outer.answer(self.enclosed(reply))

    def refuse(self, refusal: Refusal, refused: Callable[[Refusal], Answer]) -> None:
        if refusal.code is ErrorCode.not_controller:
            self._outer.answer(NOT_HERE)
        else:
            super().refuse(refusal, refused)

    def enclosed(self, reply: Answer) -> EnvelopeResponse:
        """The envelope around an answer."""
        return EnvelopeResponse(response_data=joined(self.encode(reply)))


def handle(context: EnvelopeContext, request: Request[EnvelopeRequest]) -> EnvelopeResponse | Later:
    """Open the envelope and let the enclosed request be handled."""
    routes = context.routes
    if not context.plane.is_active:
        return NOT_HERE
    try:
        enclosed = EnclosedRequest(request, routes, memoryview(request.body.request_data))
    except MalformedRequest:
        return EnvelopeResponse(error_code=ErrorCode.invalid_request)
    reply = routes[enclosed.api_key].handle(enclosed)
    return reply if isinstance(reply, Later) else enclosed.enclosed(reply)
