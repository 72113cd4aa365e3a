"""The server over real sockets, on a loop of its own thread."""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest
import uvloop

from tidelog.http.connection import HttpLimits
from tidelog.http.messages import (
    Chunks,
    HttpRequest,
    HttpResponse,
    Routes,
    json_response,
    strict_json,
    text_response,
)
from tidelog.http.server import HttpServer
from tidelog.http.server_sent_events import EventLine, event_stream, event_text

LIMITS = HttpLimits(header_bytes=2000, body_bytes=100, connections=4, idle_s=5.0, unread_s=0.2)


class Served:
    """A server with an accepting socket, as a process has it."""

    def __init__(self, routes: Routes, limits: HttpLimits) -> None:
        self.reports: list[str] = []
        self.loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
        self.server = HttpServer(self.loop, routes, self.reports.append, limits)
        self._door = socket.create_server(("127.0.0.1", 0))
        self._door.setblocking(False)
        self.port = self._door.getsockname()[1]
        self.loop.add_reader(self._door.fileno(), self._accept)
        self.unhandled: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda _, context: self.unhandled.append(context))
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def _accept(self) -> None:
        peer, _ = self._door.accept()
        peer.setblocking(False)
        self.server.take(peer)

    def connection(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)

    def get(
        self, path: str, method: str = "GET", **headers: str
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        connection = self.connection()
        try:
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def count(self) -> int:
        """Connections, once the loop has come to it."""
        return asyncio.run_coroutine_threadsafe(self._count(), self.loop).result(10)

    async def _count(self) -> int:
        return len(self.server)

    def close(self) -> None:
        asyncio.run_coroutine_threadsafe(self.server.close(), self.loop).result(10)
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.remove_reader(self._door.fileno())
        self._door.close()
        self.loop.close()
        assert self.unhandled == []


class Streams:
    """Handlers that stream, and what became of them."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.written = 0

    async def endless(self, request: HttpRequest) -> HttpResponse:
        return event_stream(self._endless(int(request.query.get("bytes", "10"))))

    async def _endless(self, size: int) -> Chunks:
        try:
            while True:
                yield event_text("x" * size, "more", 7)
                self.written += 1
                await asyncio.sleep(0.001)
        finally:
            self.ended.set()


async def echo(request: HttpRequest) -> HttpResponse:
    return json_response([request.method, request.path, dict(request.query), len(request.body)])


async def failing(request: HttpRequest) -> HttpResponse:
    async def chunks() -> Chunks:
        yield b"first"
        raise ValueError("a mistake in the middle")

    return event_stream(chunks())


async def hello(request: HttpRequest) -> HttpResponse:
    return text_response("hello")


async def broken(request: HttpRequest) -> HttpResponse:
    raise ValueError("a handler's mistake")


@pytest.fixture
def streams() -> Streams:
    return Streams()


@pytest.fixture
def served(streams: Streams) -> Iterator[Served]:
    routes: Routes = {
        "/": {"GET": hello},
        "/echo": {"GET": echo, "POST": echo},
        "/broken": {"GET": broken},
        "/stream": {"GET": streams.endless},
        "/failing": {"GET": failing},
    }
    served = Served(routes, LIMITS)
    yield served
    served.close()


def test_a_connection_is_asked_again_and_again(served: Served) -> None:
    connection = served.connection()
    for n in range(3):
        connection.request("GET", f"/echo?n={n}&n=9&empty=")
        answer = connection.getresponse()
        assert json.loads(answer.read()) == ["GET", "/echo", {"n": str(n), "empty": ""}, 0]
    connection.close()


def test_head_has_the_headers_of_get_and_no_body(served: Served) -> None:
    status, headers, body = served.get("/", "HEAD")
    assert (status, headers["Content-Length"], body) == (200, "5", b"")
    assert served.get("/stream", "HEAD")[0] == 200


def test_unknown_paths_and_methods_are_refused_in_words(served: Served) -> None:
    status, _, body = served.get("/nothing")
    assert (status, json.loads(body)) == (404, {"error": "there is no /nothing; see /"})
    status, headers, body = served.get("/", "DELETE")
    assert (status, headers["Allow"]) == (405, "GET")


@pytest.mark.parametrize(
    ("target", "path"),
    [("//[", "//["), ("//[::1/echo", "//[::1/echo"), ("//echo", "//echo"), ("/[?[", "/["),
     ("/%", "/%"), ("http://[", "/"), ("http://localhost/nothing?a=1", "/nothing"), ("*", "/"),
     ("/nothing#[", "/nothing")],
)  # fmt: skip
def test_whatever_is_asked_for_is_answered(served: Served, target: str, path: str) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as peer:
        peer.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        answer = http.client.HTTPResponse(peer)
        answer.begin()
        body = answer.read()

    if path == "/":
        assert (answer.status, body) == (200, b"hello")
    else:
        assert (answer.status, json.loads(body)["error"]) == (404, f"there is no {path}; see /")
    assert served.reports == []


def test_what_is_sent_is_json_to_a_browser() -> None:
    answer = json_response({"half of a pair": "\ud83d", "whole": "😀"})

    assert isinstance(answer.body, bytes)
    assert answer.body.decode("utf-8") == '{"half of a pair":"\\ud83d","whole":"😀"}\n'
    assert event_text('"\ud83d"', "said") == b'event: said\ndata: "\\ud83d"\n\n'
    for number in (math.nan, math.inf):
        with pytest.raises(ValueError, match="JSON"):
            json_response(number)
    for text in ("NaN", "-Infinity", '{"a": NaN}'):
        with pytest.raises(ValueError, match="is no JSON"):
            strict_json(text)


def test_who_is_hung_up_on_at_once_is_not_left_open() -> None:
    async def hang_up() -> None:
        server = HttpServer(asyncio.get_running_loop(), {}, print, LIMITS)
        ours, theirs = socket.socketpair()
        with ours, theirs:
            server.take(theirs)
            await server.close()
            assert theirs.fileno() < 0

    asyncio.run(hang_up())


def test_a_handler_that_fails_is_reported_and_its_connection_goes_on(served: Served) -> None:
    connection = served.connection()
    connection.request("GET", "/broken")
    answer = connection.getresponse()
    assert (answer.status, json.loads(answer.read())) == (500, {"error": "the node has noted why"})
    connection.request("GET", "/")
    assert connection.getresponse().read() == b"hello"
    connection.close()
    assert served.reports == ["/broken: ValueError: a handler's mistake"]


def test_a_page_from_elsewhere_cannot_read_a_listener_on_loopback(served: Served) -> None:
    assert served.get("/", Host="evil.example:80")[0] == 421
    for host in ("localhost", "LOCALHOST:99", "127.0.0.1:80", "[::1]:80"):
        assert served.get("/", Host=host)[0] == 200, host


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"no protocol at all\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 3000, 431),
        (
            b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 101\r\n\r\n" + b"z" * 101,
            413,
        ),
    ],
)
def test_what_cannot_be_read_is_refused_and_hung_up_on(
    served: Served, sent: bytes, status: int
) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as peer:
        peer.sendall(sent)
        answer = b""
        while part := peer.recv(10_000):
            answer += part
    assert answer.startswith(b"HTTP/1.1 %d " % status)


def test_a_body_within_the_limit_is_read(served: Served) -> None:
    connection = served.connection()
    connection.request("POST", "/echo", body=b"z" * 100)
    assert json.loads(connection.getresponse().read())[3] == 100
    connection.close()


def test_a_stream_arrives_as_events_and_ends_with_its_reader(
    served: Served, streams: Streams
) -> None:
    connection = served.connection()
    connection.request("GET", "/stream?bytes=3")
    answer = connection.getresponse()
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.read(40).startswith(b"id: 7\nevent: more\ndata: xxx\n\nid: 7\n")
    connection.close()
    answer.close()
    assert streams.ended.wait(10)
    assert served.reports == []


def test_a_stream_that_fails_is_reported_and_cut_off(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as peer:
        peer.sendall(b"GET /failing HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = b""
        with suppress(ConnectionResetError):
            while part := peer.recv(10_000):
                answer += part
    assert not answer.endswith(b"0\r\n\r\n"), "it must not look whole"
    assert served.reports == ["a stream ended: ValueError: a mistake in the middle"]


def test_a_reader_that_does_not_read_is_dropped(served: Served, streams: Streams) -> None:
    with socket.create_connection(("127.0.0.1", served.port), timeout=10) as peer:
        peer.sendall(b"GET /stream?bytes=100000 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert streams.ended.wait(10)
        assert served.get("/")[0] == 200
    assert served.reports == []


@pytest.mark.parametrize(
    "sent",
    [b"", b"GET /st", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 5, b"GET /stream HTTP/1.1"],
)
def test_peers_that_hang_up_at_any_moment_leave_no_trace(served: Served, sent: bytes) -> None:
    reset = struct.pack("ii", 1, 0)
    whole = sent + b"\r\nHost: localhost\r\n\r\n" if b"stream" in sent else sent
    for n in range(40):
        with socket.create_connection(("127.0.0.1", served.port), timeout=10) as peer:
            peer.sendall(whole)
            if n % 4 == 0 and len(whole) > 20:
                peer.recv(10)
            if n % 2:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
    deadline = time.monotonic() + 10
    while served.count():
        assert time.monotonic() < deadline, "some connections are still there"
    assert served.reports == []


def test_too_many_connections_are_turned_away_in_words(served: Served) -> None:
    held = [served.connection() for _ in range(LIMITS.connections)]
    for connection in held:
        connection.request("GET", "/")
        connection.getresponse().read()
    assert served.count() == LIMITS.connections
    status, _, body = served.get("/")
    assert (status, json.loads(body)) == (503, {"error": "too many connections"})
    for connection in held:
        connection.close()


def test_events_beyond_what_may_wait_break_the_line() -> None:
    async def run() -> list[bytes]:
        line = EventLine(max_bytes=10)
        line.put(b"12345")
        line.put(b"67890")
        before = line.take()
        line.put(b"123456")
        line.put(b"123456")
        assert line.is_over
        assert [event async for event in line.events()] == []
        return before

    assert asyncio.run(run()) == [b"12345", b"67890"]
