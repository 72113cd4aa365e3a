"""From an API to its handler: which message its requests are, and who answers them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Generic, NamedTuple, TypeVar

from tidelog.node.core.request import Reply, Request
from tidelog.protocol.message import RequestMessage

ContextT = TypeVar("ContextT")
BodyT = TypeVar("BodyT", bound=RequestMessage[Any])


class Route(NamedTuple, Generic[BodyT]):
    """One API of a node."""

    message: type[BodyT] | None
    """None where the body is read in a way of its own."""
    handle: Callable[[Request[BodyT]], Reply]


def route(
    message: type[BodyT],
    handle: Callable[[ContextT, Request[BodyT]], Reply],
    context: ContextT,
) -> Route[BodyT]:
    """Requests of this message are answered by this handler, in this context."""
    return Route(message, partial(handle, context))


def untyped(handle: Callable[[ContextT, Request[Any]], Reply], context: ContextT) -> Route[Any]:
    """A handler of an API whose bodies are read in a way of their own."""
    return Route(None, partial(handle, context))
