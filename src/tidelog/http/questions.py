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

_LONGEST_ANSWER: Final = 256 << 20


class NodeSilent(TidelogError):
    """A node does not answer over HTTP, or not as a node does."""


class ServerSentEvent(NamedTuple):
    """One event of a stream; `name` is "message" unless the stream says otherwise."""

    name: str
    event_id: str | None
    data: str


class NodeListener(NamedTuple):
    """Where one node answers."""

    host: str
    port: int
    secure: bool = False

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'https' if self.secure else 'http'}://{host}:{self.port}"

    def ask(self, path: str, timeout_s: float) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        with closing(self._connection(timeout_s)) as connection:
            try:
                connection.request("GET", path)
                answer = connection.getresponse()
                return answer.status, answer.read(_LONGEST_ANSWER)
            except (OSError, HTTPException) as error:
                raise self._silent(error) from error

    def ask_json(self, path: str, timeout_s: float) -> dict[str, Any]:
        """An answer that is an object, whatever its status."""
        status, body = self.ask(path, timeout_s)
        try:
            found = json.loads(body)
        except ValueError:
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
                yield from _events(answer)
            except (OSError, HTTPException) as error:
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
    """`http://host:port` or `host:port`."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in ("http", "https") or not parts.hostname or not port:
        raise ConfigError(f"{text!r} is not the address of a node such as http://127.0.0.1:11092")
    if parts.path.strip("/") or parts.query:
        raise ConfigError(f"{text!r} has a path: name the node alone, http://{parts.netloc}")
    return NodeListener(parts.hostname, port, parts.scheme == "https")


def _events(answer: HTTPResponse) -> Iterator[ServerSentEvent]:
    name, event_id, data = "message", None, list[str]()
    for raw in answer:
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if not line:
            if data:
                yield ServerSentEvent(name, event_id, "\n".join(data))
            name, event_id, data = "message", None, []
            continue
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "event":
            name = value
        elif field == "id":
            event_id = value


def _refusal(answer: HTTPResponse) -> str:
    try:
        return str(json.loads(answer.read(_LONGEST_ANSWER))["error"])
    except (ValueError, LookupError, TypeError):
        return f"answers {answer.status}"
