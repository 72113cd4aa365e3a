"""A relay before a broker that notes what is answered to the fetches of its followers."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import Self

from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import decode_fetch
from tidelog.protocol.frame import FrameSplitter, read_request_header

ANSWER = struct.Struct(">ibihi")
"""The head of a flexible answer to a fetch: correlation id, tags, throttle time, error, session."""


class FetchRelay:
    """Listens on a port of its own; `target` is where the broker is."""

    def __init__(self) -> None:
        self.target = ("127.0.0.1", 0)
        self.errors: list[int] = []
        """Of whole fetches of followers."""
        self.sessions: dict[int, set[int]] = {}
        """The sessions that were answered on each connection."""
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._open = ExitStack()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._listener.close()
        self._open.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client = self._open.enter_context(self._listener.accept()[0])
                broker = self._open.enter_context(socket.create_connection(self.target))
                asked: dict[int, int] = {}
                for source, sink, note in (
                    (client, broker, self._asks),
                    (broker, client, self._answers),
                ):
                    arguments = (source, sink, note, asked, client.fileno())
                    threading.Thread(target=self._carry, args=arguments, daemon=True).start()

    @staticmethod
    def _carry(
        source: socket.socket,
        sink: socket.socket,
        note: Callable[[bytes, dict[int, int], int], None],
        asked: dict[int, int],
        connection: int,
    ) -> None:
        splitter = FrameSplitter()
        with suppress(OSError):
            while data := source.recv(1 << 16):
                for frame in splitter.receive(data):
                    note(bytes(frame), asked, connection)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def _asks(self, frame: bytes, asked: dict[int, int], _connection: int) -> None:
        if int.from_bytes(frame[:2], "big") == ApiKey.FETCH:
            header = read_request_header(memoryview(frame))
            body = memoryview(frame)[header.body_offset :]
            fetch = decode_fetch(body, header.api_version)
            if fetch.replica_id >= 0:
                asked[header.correlation_id] = fetch.replica_id

    def _answers(self, frame: bytes, asked: dict[int, int], connection: int) -> None:
        if asked.pop(int.from_bytes(frame[:4], "big"), None) is not None:
            _, _, _, error, session = ANSWER.unpack_from(frame)
            self.errors.append(error)
            self.sessions.setdefault(connection, set()).add(session)
