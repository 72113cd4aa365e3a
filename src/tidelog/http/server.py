"""A small HTTP server on a loop that has other things to do.

It does not accept: who has a listening socket hands it the connections.

Invariant  It serves at most `connections` connections, and refuses as many in words; each of them
           is a task of its own that ends with it.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from typing import Final

from tidelog.http.connection import HttpConnection, HttpLimits
from tidelog.http.messages import HttpResponse, Routes, error_response

_FULL: Final = error_response(HTTPStatus.SERVICE_UNAVAILABLE, "too many connections")


class HttpServer:
    """Serves routes to the connections that it is given."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        routes: Routes,
        report: Callable[[str], None],
        limits: HttpLimits | None = None,
    ) -> None:
        self._loop = loop
        self._routes = routes
        self._report = report
        self._limits = limits or HttpLimits()
        self._tasks: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        """Connections at this moment."""
        return len(self._tasks)

    def take(self, peer: socket.socket) -> None:
        """Serve a connection that was accepted, or turn it away."""
        most = self._limits.connections
        if len(self._tasks) >= 2 * most:
            peer.close()
            return
        refusal = _FULL if len(self._tasks) >= most else None
        task = self._loop.create_task(self._serve(peer, refusal))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        # Who is hung up on before the task has begun is nobody's else.
        task.add_done_callback(lambda ended: peer.close() if ended.cancelled() else None)

    async def close(self) -> None:
        """Hang up on everybody."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _serve(self, peer: socket.socket, refusal: HttpResponse | None) -> None:
        try:
            reader, writer = await asyncio.open_connection(sock=peer)
        except Exception:  # the peer has left already
            peer.close()
            return
        try:
            connection = HttpConnection(reader, writer, self._routes, self._limits, self._report)
            await connection.serve(refusal)
        except asyncio.CancelledError:
            writer.transport.abort()
        except Exception as error:
            self._report(f"{type(error).__name__}: {error}")
        finally:
            with suppress(Exception):  # it is over, whatever the transport says to that
                writer.close()
                async with asyncio.timeout(self._limits.unread_s):
                    await writer.wait_closed()
