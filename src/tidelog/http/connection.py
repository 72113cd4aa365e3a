"""One HTTP connection: h11 reads and writes the protocol, asyncio the socket.

Invariant  A peer that sends nothing, or does not read what it is sent, is hung up on in time.
Invariant  Whatever a handler does, its connection ends with an answer or is closed; nothing of it
           reaches the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import parse_qsl, unquote

import h11

from tidelog.http.messages import Chunks, HttpRequest, HttpResponse, Routes, error_response

_READ_BYTES: Final = 16_384
_BUFFERED_BYTES: Final = 262_144


class HttpLimits(NamedTuple):
    """How much one peer may take, and all together."""

    header_bytes: int = 16_384
    body_bytes: int = 65_536
    connections: int = 64
    idle_s: float = 30.0
    unread_s: float = 10.0
    """How long a peer may leave unread what was sent to it."""


class HttpConnection:
    """Answers one request after the other."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        routes: Routes,
        limits: HttpLimits,
        report: Callable[[str], None],
    ) -> None:
        """`report` hears of handlers that failed."""
        self._reader = reader
        self._writer = writer
        self._routes = routes
        self._limits = limits
        self._report = report
        self._protocol = h11.Connection(h11.SERVER, max_incomplete_event_size=limits.header_bytes)
        own = writer.get_extra_info("sockname") or ("",)  # none when the peer has left already
        self._is_loopback = _is_loopback(str(own[0]))

    async def serve(self, refusal: HttpResponse | None = None) -> None:
        """Until the peer leaves, or must; with a refusal it gets that and no more."""
        protocol = self._protocol
        if not self._writer.transport.is_closing():
            self._writer.transport.set_write_buffer_limits(_BUFFERED_BYTES)
        try:
            while (request := await self._next_request()) is not None:
                if isinstance(request, HttpResponse):
                    await self._send(request, is_last=True)
                elif refusal is not None:
                    await self._send(refusal, is_last=True)
                else:
                    is_head = request.method == "HEAD"
                    await self._send(await self._answer(request), with_body=not is_head)
                if (protocol.our_state, protocol.their_state) != (h11.DONE, h11.DONE):
                    return
                protocol.start_next_cycle()
        except (OSError, TimeoutError, h11.ProtocolError):
            self._writer.transport.abort()  # the peer is gone, silent or does not read

    # -- hearing -------------------------------------------------------------------------------

    async def _next_request(self) -> HttpRequest | HttpResponse | None:
        """A whole request, what is wrong with it, or None when none comes any more."""
        try:
            head = await self._next_event()
            if not isinstance(head, h11.Request):
                return None
            body = bytearray()
            while isinstance(part := await self._next_event(), h11.Data):
                body += part.data
                if len(body) > self._limits.body_bytes:
                    why = f"more than {self._limits.body_bytes} bytes"
                    return error_response(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, why)
        except h11.RemoteProtocolError as error:
            return error_response(error.error_status_hint, str(error))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in head.headers}
        path, asked = _split(head.target.decode("latin-1"))
        query = dict(reversed(parse_qsl(asked, keep_blank_values=True)))
        method = head.method.decode("latin-1")
        return HttpRequest(method, unquote(path), query, headers, bytes(body))

    async def _next_event(self) -> h11.Event | type[h11.NEED_DATA] | type[h11.PAUSED]:
        while (event := self._protocol.next_event()) is h11.NEED_DATA:
            if self._protocol.they_are_waiting_for_100_continue:
                await self._write(h11.InformationalResponse(status_code=100, headers=[]))
            async with asyncio.timeout(self._limits.idle_s):
                received = await self._reader.read(_READ_BYTES)
            self._protocol.receive_data(received)
        return event

    # -- answering -----------------------------------------------------------------------------

    async def _answer(self, request: HttpRequest) -> HttpResponse:
        if self._is_loopback and not _names_loopback(request.headers.get("host", "localhost")):
            why = "a listener on loopback answers only those who ask for localhost"
            return error_response(HTTPStatus.MISDIRECTED_REQUEST, why)
        methods = self._routes.get(request.path)
        if methods is None:
            return error_response(HTTPStatus.NOT_FOUND, f"there is no {request.path}; see /")
        method = "GET" if request.method == "HEAD" else request.method
        handler = methods.get(method)
        if handler is None:
            allowed = ", ".join(methods)
            why = f"{request.path} answers {allowed} only"
            refused = error_response(HTTPStatus.METHOD_NOT_ALLOWED, why)
            return refused._replace(headers=(("Allow", allowed),))
        try:
            return await handler(request)
        except Exception as error:
            self._report(f"{request.path}: {type(error).__name__}: {error}")
            return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "the node has noted why")

    async def _send(
        self, response: HttpResponse, *, with_body: bool = True, is_last: bool = False
    ) -> None:
        body = response.body
        headers = [("Content-Type", response.content_type), *response.headers]
        headers.append(("X-Content-Type-Options", "nosniff"))
        if isinstance(body, bytes):
            headers.append(("Content-Length", str(len(body))))
        if is_last or not isinstance(body, bytes):
            headers.append(("Connection", "close"))
        if self._protocol.our_state not in (h11.IDLE, h11.SEND_RESPONSE):
            return
        reason = HTTPStatus(response.status).phrase
        await self._write(
            h11.Response(status_code=response.status, headers=headers, reason=reason.encode())
        )
        if not isinstance(body, bytes):
            await (self._stream(body) if with_body else body.aclose())
        elif with_body:
            await self._write(h11.Data(data=body))
        await self._write(h11.EndOfMessage())

    async def _stream(self, chunks: Chunks) -> None:
        """Send a body as it comes about, until it ends or nobody is there any more."""
        streaming = asyncio.current_task()
        assert streaming is not None
        leaving = asyncio.ensure_future(self._peer_left())
        leaving.add_done_callback(lambda left: left.cancelled() or streaming.cancel())
        try:
            async for chunk in chunks:
                await self._write(h11.Data(data=chunk))
        except asyncio.CancelledError:
            if not leaving.done():
                raise
            raise ConnectionResetError("the reader left") from None
        except (OSError, h11.ProtocolError):  # a timeout is one of them
            raise
        except Exception as error:
            self._report(f"a stream ended: {type(error).__name__}: {error}")
            raise ConnectionAbortedError("the stream failed") from error
        finally:
            leaving.cancel()
            await chunks.aclose()

    async def _peer_left(self) -> None:
        with suppress(Exception):  # however it left
            while await self._reader.read(_READ_BYTES):
                pass

    async def _write(self, event: h11.Event) -> None:
        if self._writer.transport.is_closing():
            raise ConnectionResetError("the peer left")
        self._writer.write(self._protocol.send(event) or b"")
        if self._writer.transport.get_write_buffer_size() > _BUFFERED_BYTES:
            async with asyncio.timeout(self._limits.unread_s):
                await self._writer.drain()


def _split(target: str) -> tuple[str, str]:
    """The path and the query of a request's target, with or without the address before them."""
    if not target.startswith("/"):
        _, _, behind = target.partition("://")
        target = "/" + behind.partition("/")[2]
    path, _, query = target.partition("#")[0].partition("?")
    return path, query


def _names_loopback(host: str) -> bool:
    """Whether a `Host` is this machine by its own names: no page from elsewhere can make one so."""
    name = host.rpartition("]")[0].lstrip("[") or host.partition(":")[0]
    return name.lower() == "localhost" or _is_loopback(name)


def _is_loopback(address: str) -> bool:
    try:
        return ip_address(address.partition("%")[0]).is_loopback
    except ValueError:
        return False
