"""From an API to its handler: how the body of its requests is read, and who answers them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, NamedTuple, TypeAlias, TypeVar

from tidelog.node.core.request import Reply, Request
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_body
from tidelog.protocol.message import RequestMessage

ContextT = TypeVar("ContextT")
BodyT = TypeVar("BodyT")
MessageT = TypeVar("MessageT", bound=RequestMessage[Any])


class Route(NamedTuple, Generic[BodyT]):
    """One API of a node."""

    decode: Callable[[memoryview, int], BodyT]
    """Reads the body of a version."""
    handle: Callable[[Request[BodyT]], Reply]


Routes: TypeAlias = Mapping[ApiKey, Route[Any]]
"""Each API with a body of its own; a route brings its two halves together."""


def route(
    message: type[MessageT],
    handle: Callable[[ContextT, Request[MessageT]], Reply],
    context: ContextT,
) -> Route[MessageT]:
    """Requests of this message are answered by this handler, in this context."""

    def decode(body: memoryview, version: int) -> MessageT:
        return decode_body(message, version, body)

    return Route(decode, partial(handle, context))


def decoded_route(
    decode: Callable[[memoryview, int], BodyT],
    handle: Callable[[ContextT, Request[BodyT]], Reply],
    context: ContextT,
) -> Route[BodyT]:
    """The same for an API whose bodies are read in a way of their own."""
    return Route(decode, partial(handle, context))
