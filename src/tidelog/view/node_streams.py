"""Server-sent events of a node, read with h11 over asyncio.

Invariant  A stream that is silent for longer than its node's sign of life takes is given up.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import h11

from tidelog.model.errors import ConfigError, TidelogError

_CONNECT_S: Final = 3.0
_SILENT_S: Final = 25.0
"""A node says every 10 s that it is still there."""
_READ_BYTES: Final = 262_144
_LONGEST_EVENT: Final = 8 << 20


class NodeSilent(TidelogError):
    """A node does not answer over HTTP; the message says why."""


class NodeAddress(NamedTuple):
    """Where a node answers over HTTP, and its id where that is known beforehand."""

    host: str
    port: int
    node_id: int | None = None

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> NodeAddress:
        """`http://host:port` or `host:port`."""
        parts = urlsplit(text if "://" in text else f"http://{text}")
        try:
            port = parts.port
        except ValueError:
            port = None
        if parts.scheme != "http" or not parts.hostname or port is None or parts.path not in "/":
            raise ConfigError(
                f"{text!r} is not the address of a node, such as http://127.0.0.1:8100"
            )
        return cls(parts.hostname, port)


class StreamedEvent(NamedTuple):
    """One event of a stream."""

    name: str
    event_id: str | None
    data: Any


class EventParser:
    """Bytes in, events out; comments and unknown fields are skipped."""

    def __init__(self) -> None:
        self._partial = b""

    def receive(self, data: bytes) -> list[StreamedEvent]:
        *whole, self._partial = (self._partial + data).split(b"\n\n")
        if len(self._partial) > _LONGEST_EVENT:
            raise NodeSilent("an event of the node is too long to be one")
        return [event for block in whole if (event := _parsed(block)) is not None]


def _parsed(block: bytes) -> StreamedEvent | None:
    name, event_id, data = "message", None, []
    for line in block.decode("utf-8", "replace").split("\n"):
        field, _, value = line.partition(":")
        value = value.removeprefix(" ")
        match field:
            case "event":
                name = value
            case "id":
                event_id = value
            case "data":
                data.append(value)
    if not data:
        return None
    try:
        return StreamedEvent(name, event_id, json.loads("\n".join(data)))
    except ValueError as error:
        raise NodeSilent(f"the node sent what is not JSON: {error}") from error


async def streamed_events(
    address: NodeAddress, target: str
) -> AsyncGenerator[list[StreamedEvent], None]:
    """The events of a stream as they arrive, several at once where several wait; an empty list
    when the answer has begun. `NodeSilent` when it ends."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(address.host, address.port)
    except (OSError, TimeoutError) as error:
        raise NodeSilent(_reason(error)) from error
    try:
        protocol = h11.Connection(h11.CLIENT)
        headers = [("Host", str(address)), ("Accept", "text/event-stream")]
        request = h11.Request(method="GET", target=target, headers=headers)
        writer.write((protocol.send(request) or b"") + (protocol.send(h11.EndOfMessage()) or b""))
        parser = EventParser()
        while True:
            event = protocol.next_event()
            if event is h11.NEED_DATA:
                async with asyncio.timeout(_SILENT_S):  # wait_for may lose a cancellation
                    received = await reader.read(_READ_BYTES)
                protocol.receive_data(received)
            elif isinstance(event, h11.Response):
                if event.status_code != 200:
                    raise NodeSilent(f"it answered {event.status_code}")
                yield []
            elif isinstance(event, h11.Data):
                if found := parser.receive(bytes(event.data)):
                    yield found
            else:
                raise NodeSilent("it closed the stream")
    except TimeoutError as error:
        raise NodeSilent(f"it was silent for {_SILENT_S:g} s") from error
    except (OSError, h11.ProtocolError) as error:
        raise NodeSilent(_reason(error)) from error
    finally:
        writer.transport.abort()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {_CONNECT_S:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
