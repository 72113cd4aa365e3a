"""Questions to the HTTP listener of a node, asked by somebody who waits for the answer.

Invariant  A node that does not answer in time, or not as docs/http.md says, is `NodeSilent` with
           the reason; nothing else is raised.
Invariant  A stream is read for as long as its node shows that it is there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from tidelog.model.errors import ConfigError, TidelogError
from tidelog.model.settings.endpoints import address_text

_LONGEST_ANSWER: Final = 256 << 20
_LONGEST_EVENT: Final = 8 << 20
_READ_BYTES: Final = 262_144


class NodeSilent(TidelogError):
    """A node does not answer over HTTP, or not as a node does."""


class ServerSentEvent(NamedTuple):
    """One event of a stream; `name` is "message" unless the stream says otherwise."""

    name: str
    event_id: str | None
    data: str


class EventParser:
    """Bytes of a stream in, events out; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._partial = b""
        self._fields: list[tuple[str, str]] = []
        self._bytes = 0

    def receive(self, data: bytes) -> list[ServerSentEvent]:
        """The events that are whole by now; `ValueError` when one has no end."""
        found = []
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            if text := line.removesuffix(b"\r").decode("utf-8", "replace"):
                field, _, value = text.partition(":")
                self._fields.append((field, value.removeprefix(" ")))
                self._bytes += len(line)
            else:
                found += self._whole()
        if self._bytes + len(self._partial) > _LONGEST_EVENT:
            raise ValueError("what it sends is too long to be an event of a node")
        return found

    def _whole(self) -> list[ServerSentEvent]:
        fields, data = dict(self._fields), [value for name, value in self._fields if name == "data"]
        self._fields.clear()
        self._bytes = 0
        if not data:
            return []
        name = fields.get("event", "message")
        return [ServerSentEvent(name, fields.get("id"), "\n".join(data))]


class NodeListener(NamedTuple):
    """Where one node answers, and its id where that is known beforehand."""

    host: str
    port: int
    secure: bool = False
    node_id: int | None = None

    @property
    def address(self) -> str:
        """`host:port`"""
        return address_text(self.host, self.port)

    def __str__(self) -> str:
        return f"{'https' if self.secure else 'http'}://{self.address}"

    def ask(self, path: str, timeout_s: float) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        with closing(self._connection(timeout_s)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read(_LONGEST_ANSWER)
            except (OSError, HTTPException, ValueError) as error:
                raise self._silent(error) from error

    def ask_json(self, path: str, timeout_s: float) -> dict[str, Any]:
        """An answer that is an object, whatever its status."""
        status, body = self.ask(path, timeout_s)
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise NodeSilent(f"{self}{path} answers {status} and no JSON: is it a node?")
        return found

    def stream(self, path: str, silence_s: float) -> Iterator[ServerSentEvent]:
        """Server-sent events, until the stream ends or its node is silent for so long."""
        with closing(self._connection(silence_s)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                if answer.status != HTTPStatus.OK:
                    raise NodeSilent(f"{self}{path}: {_refusal(answer)}")
                parser = EventParser()
                while received := answer.read1(_READ_BYTES):
                    yield from parser.receive(received)
            except (OSError, HTTPException, ValueError) as error:
                raise self._silent(error) from error

    def _connection(self, timeout_s: float) -> HTTPConnection:
        kind = HTTPSConnection if self.secure else HTTPConnection
        return kind(self.host, self.port, timeout=timeout_s)

    def _silent(self, error: Exception) -> NodeSilent:
        if isinstance(error, TimeoutError):
            return NodeSilent(f"{self} does not answer in time")
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        return NodeSilent(f"{self}: {reason or type(error).__name__}")


def parse_listener(text: str) -> NodeListener:
    """`http://host:port` or `host:port`; an IPv6 host stands in brackets."""
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if not host or not port or parts.scheme not in ("http", "https"):
        raise ConfigError(
            f"{text!r} is not the address of a node, such as http://127.0.0.1:11092 or [::1]:11092"
        )
    found = NodeListener(host, port, parts.scheme == "https")
    if parts.path.strip("/") or parts.query or parts.fragment or "@" in parts.netloc:
        raise ConfigError(f"{text!r} says more than where a node is: name it alone, {found}")
    return found


def _refusal(answer: HTTPResponse) -> str:
    try:
        return str(json.loads(answer.read(_LONGEST_ANSWER))["error"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return f"answers {answer.status}"
