"""Topics that were encoded once are told as they are now, whatever happened to them since."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any
from uuid import UUID

import pytest
from tests.node.node_bench import SETTINGS, START
from tests.protocol.kio_messages.entity_messages import encode_response

from tidelog.controller.partition_image import PartitionImage, TopicImage
from tidelog.controller.records import MetadataRecord
from tidelog.model.config import NodeConfig
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS
from tidelog.node.core.deadlines import Deadlines
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.departures import Departures
from tidelog.node.metadata.encoded_topics import FORMS_MAX, EncodedTopics
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.metadata_response import topics_array
from tidelog.protocol.stored.metadata import (
    BrokerRegistrationChangeRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisteredEndpoint,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)

VERSIONS = range(SUPPORTED[ApiKey.METADATA].min, SUPPORTED[ApiKey.METADATA].max + 1)
LISTENERS = ("INSIDE", "OUTSIDE")
BROKERS = range(100, 105)
OPERATIONS = (-(2**31), 3576)
STEPS = 150


class History:
    """Random changes of a cluster, as one of its brokers sees them."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.view = ClusterView(NodeConfig.from_properties(SETTINGS), "a cluster")
        self.departures = Departures(Deadlines(), 1000)
        self.encoded = EncodedTopics(self.view, self.departures)
        self._number = 0

    def replay(self, *records: MetadataRecord) -> None:
        offset = self.view.image.end_offset
        self.view.image.replay_all(enumerate(records, offset))

    def go_on(self) -> None:
        """Let something happen."""
        choices = (
            self.register,
            self.fence_or_not,
            self.unregister,
            self.create_topic,
            self.create_topic,
            self.delete_topic,
            self.change_partition,
            self.change_partition,
            self.change_partition,
            self.doubt,
            self.load_snapshot,
            lambda: self.replay(NoOpRecord()),
        )
        self.random.choice(choices)()

    def register(self) -> None:
        names = self.random.sample(LISTENERS, self.random.randint(1, 2))
        broker_id = self.random.choice(BROKERS)
        points = tuple(
            RegisteredEndpoint(name=name, host=name.lower(), port=9092, security_protocol=0)
            for name in names
        )
        self.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=UUID(int=self.random.getrandbits(64)),
                broker_epoch=self.view.image.end_offset,
                end_points=points,
                fenced=self.random.random() < 0.3,
            )
        )

    def fence_or_not(self) -> None:
        if (registration := self._a_broker()) is not None:
            self.replay(
                BrokerRegistrationChangeRecord(
                    broker_id=registration.broker_id,
                    broker_epoch=registration.broker_epoch,
                    fenced=-1 if registration.fenced else 1,
                )
            )

    def unregister(self) -> None:
        if (registration := self._a_broker()) is not None and self.random.random() < 0.3:
            self.replay(
                UnregisterBrokerRecord(
                    broker_id=registration.broker_id, broker_epoch=registration.broker_epoch
                )
            )

    def create_topic(self) -> None:
        self._number += 1
        name = self.random.choice(("orders-%d", "été.%d", "__consumer_offsets%.0d")) % self._number
        topic_id = UUID(int=self._number)
        if name in self.view.image.topics_by_name:
            return
        partitions = [
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=(replicas := tuple(self.random.sample(BROKERS, 3))),
                isr=replicas[:2],
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=(UUID(int=0),) * 3,
            )
            for index in range(self.random.randint(1, 12))
        ]
        self.replay(TopicRecord(name=name, topic_id=topic_id), *partitions)

    def delete_topic(self) -> None:
        if (topic := self.a_topic()) is not None and self.random.random() < 0.4:
            self.replay(RemoveTopicRecord(topic_id=topic.topic_id))

    def change_partition(self) -> None:
        if (topic := self.a_topic()) is None:
            return
        index = self.random.choice(list(topic.partitions))
        replicas = tuple(self.random.sample(BROKERS, self.random.randint(1, 4)))
        self.replay(
            PartitionChangeRecord(
                partition_id=index,
                topic_id=topic.topic_id,
                replicas=replicas,
                isr=replicas[:1],
                leader=self.random.choice((-1, -2, replicas[0])),
                directories=(UUID(int=0),) * len(replicas),
            )
        )

    def doubt(self) -> None:
        broker_id = self.random.choice(BROKERS)
        if self.random.random() < 0.5:
            self.departures.connection_lost(broker_id, START)
        else:
            self.departures.heard_from(broker_id)

    def load_snapshot(self) -> None:
        self.view.image = self.view.image.copy()

    def a_topic(self) -> TopicImage | None:
        topics = list(self.view.image.topics_by_name.values())
        return self.random.choice(topics) if topics else None

    def _a_broker(self) -> Any:
        brokers = list(self.view.image.brokers.values())
        return self.random.choice(brokers) if brokers else None


def expected_topic(history: History, topic: TopicImage, version: int, listener: str) -> Any:
    """What the protocol wants to be told of a topic, field by field."""
    view = history.view

    def partition(index: int, image: PartitionImage) -> dict[str, Any]:
        leader, error = image.leader, ErrorCode.none
        in_doubt = history.departures.is_in_doubt(leader)
        if leader == -1 or in_doubt or not view.is_live(leader):
            leader, error = -1, ErrorCode.leader_not_available
        elif view.endpoint(leader, listener) is None:
            leader = -1
            since_six = version >= 6
            error = ErrorCode.listener_not_found if since_six else ErrorCode.leader_not_available
        return {
            "error_code": error,
            "partition_index": index,
            "leader_id": leader,
            "leader_epoch": image.leader_epoch,
            "replica_nodes": image.replicas,
            "isr_nodes": image.isr,
            "offline_replicas": [node for node in image.replicas if not view.is_live(node)],
        }

    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [partition(*each) for each in sorted(topic.partitions.items())],
    }


def answer(version: int, topics: Any) -> bytes:
    return encode_response(ApiKey.METADATA, version, 7, {"topics": topics})


def asked(history: History) -> Iterator[tuple[int, str, int]]:
    for _ in range(2):
        yield (
            history.random.choice(VERSIONS),
            history.random.choice(LISTENERS),
            history.random.choice(OPERATIONS),
        )


@pytest.mark.parametrize("seed", range(12))
def test_what_was_kept_is_what_would_be_encoded_now(seed: int) -> None:
    history = History(seed)
    for _ in range(STEPS):
        history.go_on()
        for version, listener, operations in asked(history):
            everything = [topic for _, topic in sorted(history.view.image.topics_by_name.items())]
            some = history.random.sample(everything, len(everything) // 2)
            for topics, kept in (
                (everything, history.encoded.all(version, listener)),
                (some, history.encoded.some(some, version, listener)),
            ):
                fields = [
                    {
                        **expected_topic(history, topic, version, listener),
                        "topic_authorized_operations": operations,
                    }
                    for topic in topics
                ]
                built = topics_array(kept, version, operations)
                assert answer(version, built) == answer(version, fields)


@pytest.fixture
def three_topics() -> History:
    history = History(1)
    for broker_id in BROKERS:
        points = (RegisteredEndpoint(name="INSIDE", host="h", port=9092, security_protocol=0),)
        history.replay(
            RegisterBrokerRecord(
                broker_id=broker_id,
                incarnation_id=UUID(int=broker_id),
                broker_epoch=broker_id,
                end_points=points,
                fenced=False,
            )
        )
    for number, replicas in enumerate(((100, 101), (101, 102), (103, 104)), 1):
        topic_id = UUID(int=number)
        history.replay(
            TopicRecord(name=f"topic-{number}", topic_id=topic_id),
            PartitionRecord(
                partition_id=0,
                topic_id=topic_id,
                replicas=replicas,
                isr=replicas,
                leader=replicas[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=(UUID(int=0),) * 2,
            ),
        )
    return history


def encoded_by(history: History) -> int:
    before = history.encoded.encoded
    history.encoded.all(12, "INSIDE")
    return history.encoded.encoded - before


def test_only_what_changed_is_encoded_anew(three_topics: History) -> None:
    history = three_topics
    assert encoded_by(history) == 3
    assert encoded_by(history) == 0
    history.replay(NoOpRecord())
    assert encoded_by(history) == 0
    history.replay(PartitionChangeRecord(partition_id=0, topic_id=UUID(int=1), leader=101))
    assert encoded_by(history) == 1
    history.replay(BrokerRegistrationChangeRecord(broker_id=103, broker_epoch=103, fenced=1))
    assert encoded_by(history) == 1
    history.departures.connection_lost(101, START)
    assert encoded_by(history) == 2
    history.load_snapshot()
    assert encoded_by(history) == 0


def test_no_more_is_kept_than_a_few_forms_of_what_there_is(three_topics: History) -> None:
    kept = three_topics.encoded
    for version in VERSIONS:
        for listener in LISTENERS:
            kept.all(version, listener)
    assert len(kept.forms) == FORMS_MAX
    three_topics.replay(RemoveTopicRecord(topic_id=UUID(int=2)))
    named = [three_topics.view.image.topics_by_name["topic-1"]]
    kept.some(named, 12, "INSIDE")
    kept.some(named, 12, "INSIDE")
    assert len(kept.forms[12, "INSIDE"].topics) <= 2
