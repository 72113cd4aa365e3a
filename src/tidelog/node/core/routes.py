"""From an API to its handler: how the body of its requests is read, and who answers them.

A route is one callable that reads a body, makes the request and has it handled, so that nobody
but the route knows the type of its bodies.

Invariant  A request has its frame only while its handler runs, and only if it may have to be passed
           on: the frame lies in the shell's buffer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeAlias, TypeVar

from tidelog.model.time import Now
from tidelog.node.core.connections import Connection
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.apis import FORWARDED, ApiKey
from tidelog.protocol.codec import decode_body
from tidelog.protocol.frame import MalformedRequest, RequestHeader
from tidelog.protocol.message import RequestMessage, ResponseMessage

ContextT = TypeVar("ContextT")
BodyT = TypeVar("BodyT")
MessageT = TypeVar("MessageT", bound=RequestMessage[ResponseMessage])

_NO_FRAME: Final = memoryview(b"")


class MakeRequest(Protocol):
    """Makes a request around a body: `Request` itself, or what knows where else the answer goes."""

    def __call__(
        self,
        now: Now,
        connection: Connection,
        header: RequestHeader,
        body: BodyT,
        frame: memoryview,
        /,
    ) -> Request[BodyT]: ...


Route: TypeAlias = Callable[
    [MakeRequest, Now, Connection, RequestHeader, memoryview], Reply | MalformedRequest
]
"""Answers the request in a frame whose header has been read."""
Routes: TypeAlias = Mapping[ApiKey, Route]


def route(
    message: type[MessageT],
    handle: Callable[[ContextT, Request[MessageT]], Reply],
    context: ContextT,
) -> Route:
    """Requests of this message are answered by this handler, in this context."""

    def decode(body: memoryview, version: int) -> MessageT:
        return decode_body(message, version, body)

    return decoded_route(decode, handle, context)


def decoded_route(
    decode: Callable[[memoryview, int], BodyT],
    handle: Callable[[ContextT, Request[BodyT]], Reply],
    context: ContextT,
) -> Route:
    """The same for an API whose bodies are read in a way of their own."""

    def answer(
        make: MakeRequest,
        now: Now,
        connection: Connection,
        header: RequestHeader,
        frame: memoryview,
    ) -> Reply | MalformedRequest:
        try:
            body = decode(frame[header.body_offset :], header.api_version)
        except MalformedRequest as error:
            return error
        as_it_came = frame if header.api_key in FORWARDED else _NO_FRAME
        request = make(now, connection, header, body, as_it_came)
        request.frame_bytes = len(frame)
        reply = handle(context, request)
        request.frame = _NO_FRAME
        return reply

    return answer
