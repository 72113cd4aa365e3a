"""DescribeProducers (key 61, version 0): who writes idempotently to a partition."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: RecordsContext, request: Request[Any]) -> Reply:
    """List the producers that each partition remembers, whether this replica leads or follows."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": index,
                        **_describe(context, TopicPartition(topic.name, index)),
                    }
                    for index in topic.partition_indexes
                ],
            }
            for topic in request.body.topics
        ]
    }


def _describe(context: RecordsContext, name: TopicPartition) -> Fields:
    partition = context.replicas.locate(context.cluster.image, name, None)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition, "active_producers": []}
    return {
        "error_code": ErrorCode.none,
        "active_producers": [
            {
                "producer_id": producer.producer_id,
                "producer_epoch": producer.epoch,
                "last_sequence": producer.last_sequence,
                "last_timestamp": producer.last_timestamp,
                "coordinator_epoch": producer.coordinator_epoch,
                "current_txn_start_offset": producer.current_txn_start_offset,
            }
            for producer in partition.log.producers.active()
        ],
    }
