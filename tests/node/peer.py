"""A client of a node in a test: sends requests, reads the answers in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from tests.protocol.kio_messages.entity_messages import (
    decode_response,
    encode_request,
    request_header,
)

from tidelog.node.core.inputs import ConnectionClosed, FrameArrived
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
from tidelog.protocol.produce import (
    ProducedPartition,
    ProduceResponse,
    decode_produce_response,
    encode_produce,
)

if TYPE_CHECKING:
    from tests.node.node_bench import NodeBench

Answer: TypeAlias = Any
Topic: TypeAlias = str | UUID
Batch: TypeAlias = bytes | bytearray | None
Wanted: TypeAlias = Mapping[Any, int | FetchPartition]
"""By topic, a name or an id, and partition: the offset, or all there is to say."""


class Peer:
    """Somebody who is connected: sends requests, reads the answers in order."""

    def __init__(self, bench: NodeBench, connection: int, client_id: str) -> None:
        self.bench = bench
        self.connection = connection
        self.client_id = client_id
        self.closed: str | None = None
        self.is_read = True
        self.frame_limit: int | None = None
        """The largest frame that it may send, where the node has said so."""
        self.frames: list[bytes] = []
        self.sent = bytearray()
        """The buffer of the last request, which the node must have let go."""
        self._correlation_id = 0

    def send_frame(self, frame: bytes) -> None:
        """Send bytes as one request, in a buffer that the node may write to."""
        self.sent = bytearray(frame)
        view = memoryview(self.sent)
        self.bench.step(FrameArrived(self.bench.now, self.connection, view))
        view.release()

    def send(self, api: ApiKey, version: int, /, **fields: Any) -> None:
        self._correlation_id += 1
        self.send_frame(encode_request(api, version, self._correlation_id, self.client_id, fields))

    def send_body(self, api: ApiKey, version: int, body: bytes) -> None:
        self._correlation_id += 1
        flexible = version >= SUPPORTED[api].first_flexible
        header = request_header(api, version, self._correlation_id, self.client_id, flexible)
        self.send_frame(header + body)

    def answer(self) -> bytes:
        """The next answer, which must be there."""
        assert self.closed is None, f"the connection was closed: {self.closed}"
        assert self.frames, "no answer came"
        return self.frames.pop(0)

    def ask(self, api: ApiKey, version: int, /, **fields: Any) -> Answer:
        """Send a request, end the tick, decode the only answer."""
        self.send(api, version, **fields)
        self.bench.end_tick()
        frame = self.answer()
        assert not self.frames, "more than one answer came"
        correlation_id, entity = decode_response(api, version, frame)
        assert correlation_id == self._correlation_id
        return entity

    def leave(self) -> None:
        self.bench.step(ConnectionClosed(self.bench.now, self.connection, "the peer hung up"))

    # Producing

    def send_produce(
        self,
        topics: Mapping[Any, Batch],
        *,
        version: int = 9,
        acks: int = -1,
        transactional_id: str | None = None,
    ) -> None:
        wanted = [
            (*_named(topic, version), [(index, batch)]) for (topic, index), batch in topics.items()
        ]
        body = encode_produce(version, transactional_id, acks, 30_000, wanted)
        self.send_body(ApiKey.PRODUCE, version, body)

    def produced(self, version: int = 9) -> ProduceResponse:
        return decode_produce_response(self.answer(), version)

    def produce(
        self, topic: Topic, batch: Batch, partition: int = 0, *, version: int = 9, **how: Any
    ) -> ProducedPartition:
        """Produce one batch and end the tick; what became of it."""
        self.send_produce({(topic, partition): batch}, version=version, **how)
        self.bench.end_tick()
        [answered] = self.produced(version).topics
        [result] = answered.partitions
        return result

    # Fetching

    def send_fetch(
        self,
        wanted: Wanted | None = None,
        *,
        version: int = 12,
        forget: Sequence[tuple[Topic, int]] = (),
        **how: Any,
    ) -> None:
        """Ask for offsets; a whole `FetchPartition` where more than the offset matters."""
        request = FetchRequest(
            replica_id=-1,
            replica_epoch=-1,
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=0,
            session_id=0,
            session_epoch=-1,
            topics=[
                FetchTopic(*_named(topic, version, 13), [_wanted(index, what)])
                for (topic, index), what in (wanted or {}).items()
            ],
            forgotten=[(*_named(topic, version, 13), [index]) for topic, index in forget],
            rack_id="",
            cluster_id=None,
        )._replace(**how)
        self.send_body(ApiKey.FETCH, version, encode_fetch(version, request))

    def fetched(self, version: int = 12) -> FetchResponse:
        return decode_fetch_response(memoryview(self.answer()), version)

    def fetch(
        self,
        wanted: Wanted | None = None,
        *,
        version: int = 12,
        **how: Any,
    ) -> FetchResponse:
        """Fetch and end the tick; the answer must be there by then."""
        self.send_fetch(wanted, version=version, **how)
        self.bench.end_tick()
        return self.fetched(version)

    def fetch_one(
        self, topic: Topic, offset: int | FetchPartition, *, version: int = 12, **how: Any
    ) -> FetchedPartition:
        """Fetch one partition, without patience; what it gave."""
        index = offset.partition if isinstance(offset, FetchPartition) else 0
        how.setdefault("max_wait_ms", 0)
        [answered] = self.fetch({(topic, index): offset}, version=version, **how).topics
        [result] = answered.partitions
        return result


def _named(topic: Topic, version: int, by_id_since: int = 13) -> tuple[str | None, UUID | None]:
    assert isinstance(topic, UUID) == (version >= by_id_since), "name or id, by version"
    return (None, topic) if isinstance(topic, UUID) else (topic, None)


def _wanted(index: int, what: int | FetchPartition) -> FetchPartition:
    if isinstance(what, FetchPartition):
        return what
    return FetchPartition(index, -1, what, -1, -1, 1 << 20)
