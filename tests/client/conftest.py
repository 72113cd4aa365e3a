"""A scripted peer: a real socket whose answers the test decides."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Any

import pytest
from tests.protocol.kio_messages.entity_messages import encode_response

from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.frame import FrameSplitter, RequestHeader, read_request_header
from tidelog.protocol.messages.api_versions import ApiVersion, ApiVersionsResponse

Fields = Mapping[str, Any]
Script = Callable[["ScriptedPeer", RequestHeader, memoryview], Fields | bytes | None]
"""The fields of the answer, an answer already encoded, or None to cut the connection."""


class ScriptedPeer:
    """Listens, answers ApiVersions itself and asks the script for everything else."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._server.getsockname()[1])
        self.asked: list[ApiKey] = []
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._connections: list[socket.socket] = []
        self._threads[0].start()

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    def metadata(self, **topics: int) -> Fields:
        """A Metadata answer in which this peer, as broker 1, leads every partition."""
        return {
            "brokers": [{"node_id": 1, "host": "127.0.0.1", "port": self.port, "rack": None}],
            "cluster_id": "scripted",
            "controller_id": 1,
            "topics": [
                {
                    "name": name,
                    "partitions": [
                        {
                            "partition_index": index,
                            "leader_id": 1,
                            "leader_epoch": 3,
                            "replica_nodes": [1],
                            "isr_nodes": [1],
                        }
                        for index in range(count)
                    ],
                }
                for name, count in topics.items()
            ],
        }

    def close(self) -> None:
        # Closing alone does not wake a thread that waits in accept or recv.
        for each in (self._server, *self._connections):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in self._threads:
            thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self._connections.append(connection)
            thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket) -> None:
        frames = FrameSplitter()
        while True:
            try:
                data = connection.recv(65536)
                if not data:
                    break
                for frame in frames.receive(data):
                    answer = self._answer(frame)
                    if answer is None:
                        connection.shutdown(socket.SHUT_RDWR)
                        break
                    connection.sendall(len(answer).to_bytes(4, "big") + answer)
            except OSError:
                break
        connection.close()

    def _answer(self, frame: memoryview) -> bytes | None:
        header = read_request_header(frame)
        if header.api_key is ApiKey.API_VERSIONS:
            keys = [
                ApiVersion(api_key=int(key), min_version=known.min, max_version=known.max)
                for key, known in SUPPORTED.items()
            ]
            served = ApiVersionsResponse(api_keys=keys)
            return codec.encode_response(served, header.api_version, header.correlation_id)
        self.asked.append(header.api_key)
        fields = self._script(self, header, frame[header.body_offset :])
        if fields is None or isinstance(fields, bytes):
            return fields
        return encode_response(header.api_key, header.api_version, header.correlation_id, fields)


@pytest.fixture
def scripted() -> Iterator[Callable[[Script], ScriptedPeer]]:
    """Make scripted peers that are gone after the test."""
    peers: list[ScriptedPeer] = []

    def make(script: Script) -> ScriptedPeer:
        peers.append(ScriptedPeer(script))
        return peers[-1]

    yield make
    for peer in peers:
        peer.close()
