"""DescribeTopicPartitions (key 75, version 0): topics page by page, eligible leaders included.

Topics are walked in name order; the answer stops at the partition limit and names where to go on.
"""

from __future__ import annotations

from typing import Any

from tidelog.controller.partition_image import TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS
from tidelog.node.broker_state import BrokerState
from tidelog.node.handlers.metadata import TOPIC_OPERATIONS, partition_fields, unknown_topic
from tidelog.node.request import Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer one page."""
    body = request.body
    cursor = body.cursor
    asked = sorted({topic.name for topic in body.topics})
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        topics = [_missing(name, ErrorCode.invalid_request) for name in asked]
        return {"topics": topics, "next_cursor": None}
    names = asked or sorted(broker.image.topics_by_name)
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = min(body.response_partition_limit, broker.config.max_request_partition_size_limit)
    remaining = max(1, limit)
    listener = request.connection.listener
    topics = []
    for name in names:
        topic = broker.image.topics_by_name.get(name)
        if topic is None:
            topics.append(_missing(name, unknown_topic(name)))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        wanted = [index for index in sorted(topic.partitions) if index >= first]
        if len(wanted) > remaining:
            if remaining > 0:
                topics.append(_topic(broker, topic, wanted[:remaining], listener))
            stopped_at = {"topic_name": name, "partition_index": wanted[remaining]}
            return {"topics": topics, "next_cursor": stopped_at}
        topics.append(_topic(broker, topic, wanted, listener))
        remaining -= len(wanted)
    return {"topics": topics, "next_cursor": None}


def _missing(name: str, error: ErrorCode) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": None,
        "is_internal": name in INTERNAL_TOPICS,
        "partitions": [],
    }


def _topic(
    broker: BrokerState, topic: TopicImage, indexes: list[int], listener: str
) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.none,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": topic.name in INTERNAL_TOPICS,
        "partitions": [
            {
                **partition_fields(broker, index, topic.partitions[index], listener, version=13),
                "eligible_leader_replicas": list(topic.partitions[index].elr),
                "last_known_elr": list(topic.partitions[index].last_known_elr),
            }
            for index in indexes
        ],
        "topic_authorized_operations": TOPIC_OPERATIONS,
    }
