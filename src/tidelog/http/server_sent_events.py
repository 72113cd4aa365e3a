"""Server-sent events: their text, and a line for each reader that a slow one does not lengthen.

Invariant  What waits for a reader is bounded; who does not keep up loses the connection, not memory
           of ours.
"""

from __future__ import annotations

import asyncio
from collections import deque
from http import HTTPStatus
from typing import Final

from tidelog.http.messages import Chunks, HttpResponse, json_bytes

CONTENT_TYPE: Final = "text/event-stream"
STILL_HERE: Final = b": still here\n\n"
STILL_HERE_S: Final = 10.0
WAITING_MAX_BYTES: Final = 8 << 20


def event_text(data: str, name: str | None = None, event_id: int | None = None) -> bytes:
    """One event; `data` is JSON without a line break."""
    lines = [] if event_id is None else [f"id: {event_id}"]
    lines += [] if name is None else [f"event: {name}"]
    return json_bytes("\n".join([*lines, f"data: {data}", "", ""]))


def event_stream(events: Chunks) -> HttpResponse:
    """The answer that a browser's EventSource expects."""
    return HttpResponse(HTTPStatus.OK, CONTENT_TYPE, events, (("Cache-Control", "no-store"),))


async def wait_or_timeout(bell: asyncio.Event, timeout_s: float) -> bool:
    """Whether the bell rang within that time."""
    try:
        async with asyncio.timeout(timeout_s):
            await bell.wait()
    except TimeoutError:
        return False
    return True


class EventLine:
    """Events that wait for one reader."""

    def __init__(self, max_bytes: int = WAITING_MAX_BYTES) -> None:
        self._waiting: deque[bytes] = deque()
        self._bytes = 0
        self._max_bytes = max_bytes
        self._bell = asyncio.Event()
        self.is_over = False
        """Whether nothing more comes: the reader was too slow, or there is nothing to tell."""

    def put(self, event: bytes) -> None:
        """Let the reader have it, unless too much waits already."""
        if self._bytes + len(event) > self._max_bytes:
            self.end()
        if not self.is_over:
            self._waiting.append(event)
            self._bytes += len(event)
        self._bell.set()

    def end(self) -> None:
        """Let the reader go."""
        self.is_over = True
        self._waiting.clear()
        self._bell.set()

    def take(self) -> list[bytes]:
        """Everything that waits."""
        taken = list(self._waiting)
        self._waiting.clear()
        self._bytes = 0
        self._bell.clear()
        return taken

    async def events(self) -> Chunks:
        """What is put, as it is put."""
        while True:
            for event in self.take():
                yield event
            if self.is_over:
                return
            if not await wait_or_timeout(self._bell, STILL_HERE_S):
                yield STILL_HERE
