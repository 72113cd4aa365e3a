"""DescribeProducers (key 61, version 0): who writes idempotently to a partition."""

from __future__ import annotations

from tidelog.controller.topics import bad_name
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeProducersResponseProducerState,
    PartitionResponse,
    TopicResponse,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(
    context: RecordsContext, request: Request[DescribeProducersRequest]
) -> DescribeProducersResponse:
    """List the producers that each partition remembers, whether this replica leads or follows."""
    names = (topic.name for topic in request.body.topics if bad_name(topic.name) is None)
    denied = context.authorization.denied(request, AclOperation.READ, ResourceType.TOPIC, names)
    return DescribeProducersResponse(
        topics=[
            TopicResponse(
                name=topic.name,
                partitions=[
                    PartitionResponse(
                        partition_index=index, error_code=ErrorCode.topic_authorization_failed
                    )
                    if topic.name in denied
                    else _describe(context, TopicPartition(topic.name, index))
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.body.topics
        ]
    )


def _describe(context: RecordsContext, name: TopicPartition) -> PartitionResponse:
    partition = context.replicas.locate(context.cluster.image, name, None)
    if bad_name(name.topic) is not None:
        partition = ErrorCode.invalid_topic_exception
    if isinstance(partition, ErrorCode):
        return PartitionResponse(partition_index=name.partition, error_code=partition)
    return PartitionResponse(
        partition_index=name.partition,
        active_producers=[
            DescribeProducersResponseProducerState(
                producer_id=producer.producer_id,
                producer_epoch=producer.epoch,
                last_sequence=producer.last_sequence,
                last_timestamp=producer.last_timestamp,
                coordinator_epoch=producer.coordinator_epoch,
                current_txn_start_offset=producer.current_txn_start_offset,
            )
            for producer in partition.log.producers.active()
        ],
    )
