"""A node among brokers that the test plays by hand, as followers of it or as its leaders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tests.node.node_bench import NODE_ID, NodeBench
from tests.node.peer import Peer
from tests.protocol.kio_messages.entity_messages import decode_request, encode_response

from tidelog.node.core.effects import CloseLink, Effect, OpenLink, SendOnLink
from tidelog.node.core.inputs import LinkClosed, LinkFrame, LinkOpened
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    decode_fetch,
    encode_fetch_response,
)
from tidelog.protocol.frame import read_request_header
from tidelog.protocol.parts import joined

FETCH_VERSION = 17
PATIENT: Mapping[str, str] = {"broker.session.timeout.ms": "1000000"}


class Asked(NamedTuple):
    """A question of the node to another broker."""

    link: int
    api: ApiKey
    version: int
    correlation_id: int
    body: Any

    @property
    def fetch(self) -> FetchRequest:
        assert isinstance(self.body, FetchRequest)
        return self.body

    @property
    def wanted(self) -> dict[int, FetchPartition]:
        """The partitions it names, by index."""
        return {each.partition: each for topic in self.fetch.topics for each in topic.partitions}

    @property
    def forgotten(self) -> list[int]:
        return [index for _, _, indexes in self.fetch.forgotten for index in indexes]


class ReplicatedBench(NodeBench):
    """Node 100 with the controller; others are registered, lead and follow as the test says."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        super().__init__({**PATIENT, **settings})
        self.asked: list[Asked] = []
        """Questions that the test has not taken yet."""
        self.open_links: list[int] = []
        self.accepts_links = True
        self.epochs: dict[int, int] = {}
        self._control: dict[int, Peer] = {}

    def _carry_out(self, effects: list[Effect]) -> None:
        super()._carry_out(effects)
        for effect in effects:
            match effect:
                case OpenLink(link):
                    if self.accepts_links:
                        self.open_links.append(link)
                        self.step(LinkOpened(self.now, link))
                    else:
                        self.step(LinkClosed(self.now, link, "connection refused"))
                case SendOnLink(link, parts):
                    self.asked.append(_asked(link, joined(parts)))
                case CloseLink(link):
                    self.open_links.remove(link)

    # The other brokers

    def register(self, broker_id: int, rack: str | None = None) -> int:
        """Start a broker, or start it again: registered and unfenced; its epoch."""
        if broker_id in self.epochs:
            self._control[broker_id].leave()
            self.wait(1000)
        peer = self._control[broker_id] = self.connect("CONTROLLER")
        features = [
            {
                "name": each.name,
                "min_supported_version": each.min_supported_version,
                "max_supported_version": each.max_supported_version,
            }
            for each in self.node.cluster.image.brokers[NODE_ID].features
        ]
        host = {"name": "PLAINTEXT", "host": "b", "port": broker_id, "security_protocol": 0}
        answer = peer.ask(
            ApiKey.BROKER_REGISTRATION,
            4,
            broker_id=broker_id,
            cluster_id=self.node.cluster.cluster_id,
            incarnation_id=self.entropy.uuid(),
            listeners=[host],
            features=features,
            rack=rack,
            log_dirs=[UUID(int=broker_id)],
            previous_broker_epoch=self.epochs.get(broker_id, -1),
        )
        assert answer.error_code == 0
        self.epochs[broker_id] = answer.broker_epoch
        self.beat(broker_id)
        return self.epochs[broker_id]

    def beat(self, broker_id: int, *, want_fence: bool = False) -> None:
        answer = self._control[broker_id].ask(
            ApiKey.BROKER_HEARTBEAT,
            1,
            broker_id=broker_id,
            broker_epoch=self.epochs[broker_id],
            current_metadata_offset=1 << 40,
            want_fence=want_fence,
            want_shut_down=False,
            offline_log_dirs=[],
        )
        assert answer.error_code == 0

    def place_topic(self, name: str, *replicas: Sequence[int], **configs: str) -> UUID:
        """A topic whose partitions have these replicas, the first of which leads."""
        assignments = [
            {"partition_index": index, "broker_ids": list(each)}
            for index, each in enumerate(replicas)
        ]
        topic = {
            "name": name,
            "num_partitions": -1,
            "replication_factor": -1,
            "assignments": assignments,
            "configs": [
                {"name": key.replace("_", "."), "value": text} for key, text in configs.items()
            ],
        }
        answer = self.connect().ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=1000)
        [created] = answer.topics
        assert created.error_code == 0, created.error_message
        assert isinstance(created.topic_id, UUID)
        return created.topic_id

    # What the node asks them

    def take(self, api: ApiKey = ApiKey.FETCH) -> Asked:
        """The only question that waits."""
        [asked] = self.asked
        assert asked.api is api
        self.asked.clear()
        return asked

    def answer_fetch(
        self,
        asked: Asked,
        topic_id: UUID | None = None,
        *partitions: FetchedPartition,
        session_id: int = 7,
        error: int = 0,
    ) -> None:
        """Answer as a leader does, and end the tick."""
        topics = [(None, topic_id, list(partitions))] if partitions else []
        parts = encode_fetch_response(
            asked.version, asked.correlation_id, error, session_id, topics
        )
        self._arrive(asked.link, joined(parts))

    def answer(self, asked: Asked, **fields: Any) -> None:
        frame = encode_response(asked.api, asked.version, asked.correlation_id, fields)
        self._arrive(asked.link, frame)

    def lose_link(self, link: int) -> None:
        self.open_links.remove(link)
        self.step(LinkClosed(self.now, link, "connection reset"))
        self.end_tick()

    def _arrive(self, link: int, frame: bytes) -> None:
        self.step(LinkFrame(self.now, link, memoryview(bytearray(frame))))
        self.end_tick()


def _asked(link: int, frame: bytes) -> Asked:
    header = read_request_header(memoryview(frame))
    body = memoryview(frame)[header.body_offset :]
    if header.api_key is ApiKey.FETCH:
        decoded: Any = decode_fetch(body, header.api_version)
    else:
        decoded = decode_request(header.api_key, header.api_version, body)
    return Asked(link, header.api_key, header.api_version, header.correlation_id, decoded)


class Follower:
    """A broker that follows partitions of the node, fetch by fetch."""

    def __init__(self, bench: ReplicatedBench, broker_id: int, topic_id: UUID) -> None:
        self.bench = bench
        self.broker_id = broker_id
        self.topic_id = topic_id
        self.peer = bench.connect(client_id=f"broker-{broker_id}")
        self.leader_epoch = 0

    def _wanted(self, index: int, offset: int, last_epoch: int, start: int) -> FetchPartition:
        return FetchPartition(index, self.leader_epoch, offset, last_epoch, start, 1 << 20)

    def send(
        self,
        offsets: Mapping[int, int],
        *,
        last_epoch: int = -1,
        start: int = 0,
        **how: Any,
    ) -> None:
        how.setdefault("replica_epoch", self.bench.epochs[self.broker_id])
        self.peer.send_fetch(
            {
                (self.topic_id, index): self._wanted(index, offset, last_epoch, start)
                for index, offset in offsets.items()
            },
            version=FETCH_VERSION,
            replica_id=self.broker_id,
            **how,
        )
        self.bench.end_tick()

    def heard(self) -> dict[int, FetchedPartition]:
        """What the answer says, by partition."""
        answer = self.peer.fetched(FETCH_VERSION)
        assert answer.error == 0
        return {each.index: each for topic in answer.topics for each in topic.partitions}

    def fetch(self, offset: int, index: int = 0, **how: Any) -> FetchedPartition:
        """Fetch one partition without patience."""
        how.setdefault("max_wait_ms", 0)
        self.send({index: offset}, **how)
        return self.heard()[index]
