"""DescribeTopicPartitions (key 75, version 0): topics page by page, eligible leaders included.

Topics are walked in name order; the answer stops at the partition limit and names where to go on.
"""

from __future__ import annotations

from typing import Final

from tidelog.controller.partition_image import PartitionImage, TopicImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS
from tidelog.node.api.contexts import ClusterContext
from tidelog.node.api.metadata import OPERATIONS_NOT_ASKED, unknown_topic
from tidelog.node.core.request import Request
from tidelog.node.metadata.encoded_topics import BrokersView, brokers_view, described_partition
from tidelog.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseCursor,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)
from tidelog.security.acls import AclOperation, ResourceType

ALL_ERRORS: Final = 13
"""The version of Metadata that tells partitions with the same error codes."""


def handle(
    context: ClusterContext, request: Request[DescribeTopicPartitionsRequest]
) -> DescribeTopicPartitionsResponse:
    """Answer one page."""
    body = request.body
    cursor = body.cursor
    asked = sorted({topic.name for topic in body.topics})
    if cursor is not None and (
        cursor.partition_index < 0 or (asked and cursor.topic_name not in asked)
    ):
        invalid = ErrorCode.invalid_request
        topics = [_missing(name, invalid, OPERATIONS_NOT_ASKED) for name in asked]
        return DescribeTopicPartitionsResponse(topics=topics)
    names = asked or sorted(context.cluster.image.topics_by_name)
    denied = context.authorization.denied(
        request, AclOperation.DESCRIBE, ResourceType.TOPIC, names, quietly=not asked
    )
    # Who may not describe a topic does not hear whether it is there.
    hidden = [] if not asked else [_denied(name) for name in names if name in denied]
    names = [name for name in names if name not in denied]
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    limit = min(
        body.response_partition_limit, context.cluster.config.max_request_partition_size_limit
    )
    remaining = max(1, limit)
    view = brokers_view(
        context.cluster, context.departures, ALL_ERRORS, request.connection.listener
    )
    topics = []
    for name in names:
        topic = context.cluster.image.topics_by_name.get(name)
        if topic is None:
            operations = context.authorization.operations(request, ResourceType.TOPIC, name)
            topics.append(_missing(name, unknown_topic(name), operations))
            continue
        first = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        wanted = [index for index in sorted(topic.partitions) if index >= first]
        if len(wanted) > remaining:
            if remaining > 0:
                topics.append(_topic(context, request, topic, wanted[:remaining], view))
            stopped_at = DescribeTopicPartitionsResponseCursor(
                topic_name=name, partition_index=wanted[remaining]
            )
            return DescribeTopicPartitionsResponse(
                topics=[*topics, *hidden], next_cursor=stopped_at
            )
        topics.append(_topic(context, request, topic, wanted, view))
        remaining -= len(wanted)
    return DescribeTopicPartitionsResponse(topics=[*topics, *hidden])


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.topic_authorization_failed, name=name
    )


def _missing(name: str, error: ErrorCode, operations: int) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=error,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=operations,
    )


def _topic(
    context: ClusterContext,
    request: Request[DescribeTopicPartitionsRequest],
    topic: TopicImage,
    indexes: list[int],
    view: BrokersView,
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=[_partition(index, topic.partitions[index], view) for index in indexes],
        topic_authorized_operations=context.authorization.operations(
            request, ResourceType.TOPIC, topic.name
        ),
    )


def _partition(
    index: int, partition: PartitionImage, view: BrokersView
) -> DescribeTopicPartitionsResponsePartition:
    shown = described_partition(index, partition, view)
    return DescribeTopicPartitionsResponsePartition(
        error_code=shown.error_code,
        partition_index=index,
        leader_id=shown.leader_id,
        leader_epoch=shown.leader_epoch,
        replica_nodes=shown.replica_nodes,
        isr_nodes=shown.isr_nodes,
        offline_replicas=shown.offline_replicas,
        eligible_leader_replicas=partition.elr,
        last_known_elr=partition.last_known_elr,
    )
