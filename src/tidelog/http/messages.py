"""A request as a handler sees it, and what it may answer."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import Any, Final, NamedTuple, TypeAlias

JSON: Final = "application/json"
TEXT: Final = "text/plain; charset=utf-8"

Chunks: TypeAlias = AsyncGenerator[bytes, None]
"""A body that comes about while it is sent; closed when its reader leaves."""


class HttpRequest(NamedTuple):
    """A whole request."""

    method: str
    path: str
    query: Mapping[str, str]
    """The first value of each name."""
    headers: Mapping[str, str]
    """By names in lower case."""
    body: bytes = b""


class HttpResponse(NamedTuple):
    """A whole answer, or one whose body comes piece by piece."""

    status: int
    content_type: str
    body: bytes | Chunks
    headers: tuple[tuple[str, str], ...] = ()


Handler: TypeAlias = Callable[[HttpRequest], Awaitable[HttpResponse]]
Routes: TypeAlias = Mapping[str, Mapping[str, Handler]]
"""By path, then by method; whoever answers GET answers HEAD."""


def text_response(text: str, content_type: str = TEXT) -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, content_type, text.encode())


def json_response(value: object, status: int = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, JSON, json_bytes(json_text(value)) + b"\n")


def error_response(status: int, why: str) -> HttpResponse:
    """A refusal in words."""
    return json_response({"error": why}, status)


def json_text(value: object) -> str:
    """JSON without a space that nobody needs; `ValueError` for a number that JSON does not have."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def json_bytes(text: str) -> bytes:
    """JSON in UTF-8; half of a surrogate pair, which UTF-8 does not have, becomes its escape."""
    return text.encode("utf-8", "backslashreplace")


def strict_json(text: str) -> Any:
    """The value of what a browser would read as JSON, too."""
    return json.loads(text, parse_constant=_refuse_constant)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
