"""Envelope (key 58, version 0): a request that a broker passes on for its client (KIP-590).

The enclosed request is answered as if its client had asked here, and its answer, header and all,
travels back enclosed.

Invariant  That this node is not the controller, or no longer, is said by the envelope itself: the
           broker then asks the next one, and its client hears nothing of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Answer, Fields, Later, Reply, Request
from tidelog.node.core.requests import decode_body
from tidelog.node.core.routes import Route
from tidelog.protocol.apis import FORWARDED, ApiKey
from tidelog.protocol.frame import MalformedRequest, read_request_header
from tidelog.protocol.parts import joined

NOT_HERE: Final[Fields] = {"error_code": ErrorCode.not_controller, "response_data": None}


class EnclosedRequest(Request[Any]):
    """The request in an envelope; its answer goes into the envelope's."""

    __slots__ = ("_outer",)

    def __init__(
        self, outer: Request[Any], routes: Mapping[ApiKey, Route[Any]], frame: memoryview
    ) -> None:
        header = read_request_header(frame)
        key, version = header.api_key, header.api_version
        if key not in FORWARDED:
            raise MalformedRequest(f"{key.name} is not passed on")
        body = decode_body(routes[key], key, version, frame[header.body_offset :])
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

    def enclosed(self, reply: Answer) -> Fields:
        """The envelope around an answer."""
        return {"error_code": ErrorCode.none, "response_data": joined(self.encode(reply))}


def handle(
    context: ControllerContext, routes: Mapping[ApiKey, Route[Any]], request: Request[Any]
) -> Reply:
    """Open the envelope and let the enclosed request be handled."""
    if not context.plane.is_active:
        return NOT_HERE
    try:
        enclosed = EnclosedRequest(request, routes, memoryview(request.body.request_data))
    except MalformedRequest:
        return {"error_code": ErrorCode.invalid_request, "response_data": None}
    reply = routes[enclosed.api_key].handle(enclosed)
    return reply if isinstance(reply, Later) else enclosed.enclosed(reply)
