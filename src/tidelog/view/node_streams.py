"""Server-sent events of a node, read with h11 over asyncio.

Invariant  A stream that is silent for longer than its node's sign of life takes is given up.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import Final

import h11

from tidelog.http.questions import EventParser, NodeListener, NodeSilent, ServerSentEvent

_CONNECT_S: Final = 3.0
_SILENT_S: Final = 25.0
"""A node says every 10 s that it is still there."""
_READ_BYTES: Final = 262_144


async def streamed_events(
    listener: NodeListener, target: str
) -> AsyncGenerator[list[ServerSentEvent], None]:
    """The events of a stream as they arrive, several at once where several wait; an empty list
    when the answer has begun. `NodeSilent` when it ends."""
    try:
        async with asyncio.timeout(_CONNECT_S):
            reader, writer = await asyncio.open_connection(
                listener.host,
                listener.port,
                ssl=ssl.create_default_context() if listener.secure else None,
            )
    except (OSError, UnicodeError) as error:
        raise NodeSilent(_reason(error)) from error
    try:
        protocol = h11.Connection(h11.CLIENT)
        headers = [("Host", listener.address), ("Accept", "text/event-stream")]
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
    except (OSError, ValueError, h11.ProtocolError) as error:
        raise NodeSilent(_reason(error)) from error
    finally:
        writer.transport.abort()


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return f"it did not answer within {_CONNECT_S:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "nobody listens there"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
