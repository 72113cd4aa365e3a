"""A peer that speaks in bytes: it sends whatever it is told to, and reports what comes back."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from uuid import UUID

from tests.protocol.kio_messages.entity_messages import (
    decode_response,
    encode_request,
    request_header,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    decode_fetch_response,
    encode_fetch,
)
from tidelog.protocol.messages.api_versions import ApiVersionsRequest
from tidelog.protocol.produce import ProducedPartition, decode_produce_response, encode_produce
from tidelog.records.builder import NewRecord, build_batch

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
POLL_S = 0.02


class HungUp(Exception):
    """The broker closed the connection instead of answering."""


class Topic(NamedTuple):
    """A topic in both of its names."""

    name: str
    topic_id: UUID | None


class Peer:
    """One connection; waits for an answer no longer than `timeout_s`."""

    def __init__(self, address: str, timeout_s: float = 10.0, source: str = "") -> None:
        """It speaks from the address `source`, or from any."""
        host, _, port = address.rpartition(":")
        own = (source, 0) if source else None
        self.socket = socket.create_connection((host, int(port)), timeout_s, own)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._received = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        """Send bytes; a broker that has hung up already is told apart when something is read."""
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return

    def send_frame(self, *bodies: bytes) -> None:
        self.send(b"".join(framed(body) for body in bodies))

    def receive(self) -> bytes:
        """The next answer; HungUp when there is none."""
        length = int.from_bytes(self._take(4), "big")
        return self._take(length)

    def ask(self, body: bytes) -> bytes:
        self.send_frame(body)
        return self.receive()

    def call(self, api_key: ApiKey, version: int, fields: Mapping[str, Any]) -> Any:
        """Ask with named fields and get the answer's body."""
        return decode_response(api_key, version, self.ask(request(api_key, version, fields)))[1]

    def hangs_up(self) -> bool:
        """Wait until the broker closes the connection; False when it answers instead."""
        try:
            self.receive()
        except HungUp:
            return True
        return False

    def _take(self, count: int) -> bytes:
        received = self._received
        while len(received) < count:
            try:
                piece = self.socket.recv(262_144)
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise HungUp(f"{len(received)} of {count} bytes, then the end")
            received += piece
        taken = bytes(received[:count])
        del received[:count]
        return taken


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def correlation_id(frame: bytes) -> int:
    return int.from_bytes(frame[:4], "big")


def request(
    api_key: ApiKey, version: int, fields: Mapping[str, Any], correlation_id: int = 7
) -> bytes:
    if api_key is ApiKey.API_VERSIONS:  # of its newest version kio knows nothing
        asked = ApiVersionsRequest(**fields)
        return codec.encode_request(asked, version, correlation_id, "raw")
    return encode_request(api_key, version, correlation_id, "raw", fields)


def header(api_key: ApiKey, version: int, correlation_id: int = 7) -> bytes:
    """The header alone, for a body made by hand."""
    flexible = version >= SUPPORTED[api_key].first_flexible
    return request_header(api_key, version, correlation_id, "raw", flexible)


def api_versions(correlation_id: int = 7) -> bytes:
    """The smallest question there is."""
    return request(ApiKey.API_VERSIONS, 0, {}, correlation_id)


def produce_to(
    version: int,
    topic: Topic,
    partitions: Sequence[tuple[int, bytes | bytearray | None]],
    *,
    acks: int = -1,
    correlation_id: int = 7,
) -> bytes:
    body = encode_produce(version, None, acks, 30_000, [(topic.name, topic.topic_id, partitions)])
    return header(ApiKey.PRODUCE, version, correlation_id) + body


def produce(
    peer: Peer, topic: Topic, batch: bytes | bytearray | None, *, version: int = 9, acks: int = -1
) -> ProducedPartition:
    """What the broker says about one batch for partition 0."""
    answer = peer.ask(produce_to(version, topic, [(0, batch)], acks=acks))
    return decode_produce_response(answer, version).topics[0].partitions[0]


def fetch_from(
    version: int,
    topic: Topic,
    offset: int,
    *,
    max_wait_ms: int = 0,
    min_bytes: int = 1,
    session: tuple[int, int] = (0, -1),
    leader_epoch: int = -1,
    replica_id: int = -1,
    named: bool = True,
    correlation_id: int = 7,
) -> bytes:
    """A fetch of partition 0; `named` False asks for what the session already knows."""
    wanted = FetchPartition(0, leader_epoch, offset, -1, -1, 1 << 20)
    asked = FetchRequest(
        replica_id=replica_id,
        replica_epoch=-1,
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 25,
        isolation_level=0,
        session_id=session[0],
        session_epoch=session[1],
        topics=[FetchTopic(topic.name, topic.topic_id, [wanted])] if named else [],
        forgotten=[],
        rack_id="",
        cluster_id=None,
    )
    return header(ApiKey.FETCH, version, correlation_id) + encode_fetch(version, asked)


def fetch_answer(peer: Peer, version: int, body: bytes) -> FetchResponse:
    return decode_fetch_response(memoryview(peer.ask(body)), version)


def fetch(
    peer: Peer, topic: Topic, offset: int, *, version: int = 12, **asked: Any
) -> FetchedPartition:
    """What the broker says about partition 0."""
    answer = fetch_answer(peer, version, fetch_from(version, topic, offset, **asked))
    assert answer.error == ErrorCode.none
    return answer.topics[0].partitions[0]


def offset_of(peer: Peer, topic: Topic, timestamp: int) -> int:
    """An offset by time: -1 the end, -2 the start."""
    asked = {"partition_index": 0, "timestamp": timestamp}
    fields = {"replica_id": -1, "topics": [{"name": topic.name, "partitions": [asked]}]}
    answer = peer.call(ApiKey.LIST_OFFSETS, 5, fields)
    (found,) = answer.topics[0].partitions
    assert found.error_code == ErrorCode.none
    return int(found.offset)


def start_offset(peer: Peer, topic: Topic) -> int:
    return offset_of(peer, topic, -2)


def end_offset(peer: Peer, topic: Topic) -> int:
    return offset_of(peer, topic, -1)


def create_topic(peer: Peer, name: str, partitions: int = 1, **configs: str) -> Topic:
    """A topic of one replica; underscores in config names stand for dots."""
    entries = [{"name": key.replace("_", "."), "value": configs[key]} for key in configs]
    wish: dict[str, Any] = {"name": name, "num_partitions": partitions, "replication_factor": 1}
    wish["configs"] = entries
    answer = peer.call(ApiKey.CREATE_TOPICS, 7, {"topics": [wish], "timeout": 30_000})
    (created,) = answer.topics
    assert created.error_code == ErrorCode.none, created
    return Topic(name, created.topic_id)


def delete_topic(peer: Peer, topic: Topic) -> None:
    fields = {"topics": [{"name": topic.name}], "timeout": 30_000}
    (deleted,) = peer.call(ApiKey.DELETE_TOPICS, 6, fields).responses
    assert deleted.error_code == ErrorCode.none, deleted


def batch_of(*values: bytes | None, key: bytes | None = b"key", **options: Any) -> bytearray:
    """One batch; its records carry the present time."""
    moment = time.time_ns() // 1_000_000
    return build_batch([NewRecord(key, value, moment) for value in values], **options)


def resident_bytes(pid: int) -> int:
    return _status(pid, "VmRSS:")


def peak_bytes(pid: int) -> int:
    """The most the process has held since it started or since `forget_peak`."""
    return _status(pid, "VmHWM:")


def forget_peak(pid: int) -> None:
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def _status(pid: int, name: str) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * 1024
    raise LookupError(name)


def until(reached: Callable[[], bool], within_s: float = 10.0) -> None:
    """Look again and again until something is so."""
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline, f"not reached within {within_s:g} s"
        time.sleep(POLL_S)
