"""Metadata (key 3, versions 0-13): brokers, topics, partitions and their leaders.

Answers come from this broker's own image of the cluster. A client that names a topic which does
not exist may have it created (`auto.create.topics.enable`); its answer then waits for the topic.
One that asks for a leader which has just gone is answered when it is decided who leads instead.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.controller.partition_image import PartitionImage, TopicImage
from tidelog.controller.topic_names import bad_name
from tidelog.controller.topics import NewTopic
from tidelog.coordinator.internal_topics import internal_topic
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS, NO_LEADER
from tidelog.node.broker_state import BrokerState
from tidelog.node.coordinators import as_new_topic
from tidelog.node.request import Fields, Reply, Request
from tidelog.wire.messages import field

TOPIC_OPERATIONS: Final = sum(1 << operation for operation in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS: Final = sum(1 << operation for operation in (5, 7, 8, 9, 10, 11, 12))
OPERATIONS_NOT_ASKED: Final = -(2**31)
TOPIC_IDS_SINCE: Final = 12


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer at once, or after the missing topics have been created."""
    if request.api_version < TOPIC_IDS_SINCE and _asks_by_id(request):
        return _refused(request)
    missing = _to_create(broker, request)
    if not missing:
        return _answer_when_decided(broker, request)
    later = request.park()
    broker.control.create_topics(
        request.now,
        [_wish(broker, name) for name in missing],
        lambda refusals: request.answer(
            _answer(broker, request, {name: why.code for name, why in refusals.items()})
        ),
    )
    return later


def _answer_when_decided(broker: BrokerState, request: Request) -> Reply:
    """At once, unless the answer would have to leave out a leader that is about to be replaced."""
    doubtful = _leaders_in_doubt(broker, request)
    if not doubtful:
        return _answer(broker, request, {})
    departures = broker.departures
    ends_ms = [departures.doubt_ends_ms(leader) or 0 for leader in doubtful]
    return broker.held.hold(
        request,
        lambda: bool(_leaders_in_doubt(broker, request)),
        lambda: _answer(broker, request, {}),
        max(ends_ms) - request.now.monotonic_ms,
    )


def _leaders_in_doubt(broker: BrokerState, request: Request) -> set[int]:
    """Of the leaders that the answer names, those who may be gone."""
    in_doubt = set(broker.departures.in_doubt)
    if not in_doubt:
        return in_doubt
    image, asked = broker.image, request.body.topics
    if asked is None or (request.api_version == 0 and not asked):
        topics = list(image.topics_by_name.values())
    else:
        found = (
            image.topics_by_id.get(topic_id)
            if (topic_id := field(entry, "topic_id", None)) is not None
            else image.topics_by_name.get(entry.name)
            for entry in asked
        )
        topics = [topic for topic in found if topic is not None]
    leaders = {partition.leader for topic in topics for partition in topic.partitions.values()}
    return leaders & in_doubt


def _wish(broker: BrokerState, name: str) -> NewTopic:
    internal = internal_topic(name, broker.config)
    return NewTopic(name) if internal is None else as_new_topic(internal)


def _asks_by_id(request: Request) -> bool:
    """Versions 10 and 11 have a field for it, but their answers cannot leave out a name."""
    return any(
        topic.name is None or field(topic, "topic_id", None) is not None
        for topic in request.body.topics or ()
    )


def _refused(request: Request) -> Fields:
    return {
        "topics": [
            {"name": topic.name or "", "error_code": ErrorCode.invalid_request, "partitions": []}
            for topic in request.body.topics
        ]
    }


def _to_create(broker: BrokerState, request: Request) -> list[str]:
    topics = request.body.topics
    allowed = field(request.body, "allow_auto_topic_creation", True)
    if not topics or not allowed or not broker.config.auto_create_topics_enable:
        return []
    missing = {
        topic.name: None
        for topic in topics
        if topic.name is not None
        and field(topic, "topic_id", None) is None
        and topic.name not in broker.image.topics_by_name
    }
    return list(missing)


def _answer(broker: BrokerState, request: Request, refused: dict[str, ErrorCode]) -> Fields:
    listener = request.connection.listener
    asked = request.body.topics
    with_operations = field(request.body, "include_topic_authorized_operations", False)
    if asked is None or (request.api_version == 0 and not asked):
        topics = [
            _topic(broker, topic, request.api_version, listener)
            for _, topic in sorted(broker.image.topics_by_name.items())
        ]
    else:
        named_once = {(entry.name, field(entry, "topic_id", None)): entry for entry in asked}
        topics = [_asked_topic(broker, entry, request, refused) for entry in named_once.values()]
    if with_operations:
        for topic in topics:
            topic["topic_authorized_operations"] = TOPIC_OPERATIONS
    with_cluster = field(request.body, "include_cluster_authorized_operations", False)
    return {
        "brokers": [
            {"node_id": node.node_id, "host": node.host, "port": node.port, "rack": node.rack}
            for node in broker.listed_brokers(listener)
        ],
        "cluster_id": broker.cluster_id,
        "controller_id": broker.passes_on(listener),
        "topics": topics,
        "cluster_authorized_operations": CLUSTER_OPERATIONS
        if with_cluster
        else OPERATIONS_NOT_ASKED,
        "error_code": ErrorCode.none,
    }


def _asked_topic(
    broker: BrokerState,
    asked: Any,
    request: Request,
    refused: dict[str, ErrorCode],
) -> dict[str, Any]:
    topic_id = field(asked, "topic_id", None)
    if topic_id is not None:
        topic = broker.image.topics_by_id.get(topic_id)
        missing: dict[str, Any] = {
            "name": None,
            "topic_id": topic_id,
            "error_code": ErrorCode.unknown_topic_id,
            "partitions": [],
        }
    else:
        topic = broker.image.topics_by_name.get(asked.name)
        missing = {
            "name": asked.name,
            "error_code": refused.get(asked.name) or unknown_topic(asked.name or ""),
            "is_internal": asked.name in INTERNAL_TOPICS,
            "partitions": [],
        }
    if topic is None:
        return missing
    return _topic(broker, topic, request.api_version, request.connection.listener)


def unknown_topic(name: str) -> ErrorCode:
    """What to say of a topic that is not there: perhaps none could have this name."""
    if bad_name(name) is not None:
        return ErrorCode.invalid_topic_exception
    return ErrorCode.unknown_topic_or_partition


def _topic(broker: BrokerState, topic: TopicImage, version: int, listener: str) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [
            partition_fields(broker, index, partition, listener, version)
            for index, partition in sorted(topic.partitions.items())
        ],
    }


def partition_fields(
    broker: BrokerState, index: int, partition: PartitionImage, listener: str, version: int
) -> dict[str, Any]:
    """One partition as clients see it: its leader only when it can be reached."""
    leader = partition.leader
    error = ErrorCode.none
    in_doubt = broker.departures.is_in_doubt(leader)
    if leader == NO_LEADER or in_doubt or not broker.is_live(leader):
        leader, error = NO_LEADER, ErrorCode.leader_not_available
    elif broker.endpoint(leader, listener) is None:
        leader = NO_LEADER
        error = ErrorCode.listener_not_found if version >= 6 else ErrorCode.leader_not_available
    return {
        "error_code": error,
        "partition_index": index,
        "leader_id": leader,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.isr),
        "offline_replicas": [node for node in partition.replicas if not broker.is_live(node)],
    }
