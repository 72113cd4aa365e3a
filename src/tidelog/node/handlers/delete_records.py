"""DeleteRecords (key 21, versions 0-2): forget the beginning of a partition.

Only what is committed can be deleted (up to the high watermark, asked for as -1), and only in
topics of users whose `cleanup.policy` contains delete.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request

TO_HIGH_WATERMARK: Final = -1


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer each partition on its own, with the first offset that is left."""
    return {
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": asked.partition_index,
                        **_delete(
                            broker, TopicPartition(topic.name, asked.partition_index), asked.offset
                        ),
                    }
                    for asked in topic.partitions
                ],
            }
            for topic in request.body.topics
        ]
    }


def _delete(broker: BrokerState, name: TopicPartition, offset: int) -> Fields:
    if name.topic in INTERNAL_TOPICS:
        return _refused(ErrorCode.invalid_topic_exception)
    partition = broker.replicas.locate(broker.image, name, None)
    if isinstance(partition, ErrorCode):
        return _refused(partition)
    if not partition.is_leader:
        return _refused(ErrorCode.not_leader_or_follower)
    if not partition.log.config.cleanup_delete:
        return _refused(ErrorCode.policy_violation)
    mark = partition.high_watermark.offset
    target = mark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= target <= mark:
        return _refused(ErrorCode.offset_out_of_range)
    try:
        partition.raise_start_to(max(target, partition.log.start_offset))
    except DiskError:
        return _refused(ErrorCode.kafka_storage_error)
    return {"low_watermark": partition.log.start_offset, "error_code": ErrorCode.none}


def _refused(error: ErrorCode) -> Fields:
    return {"low_watermark": -1, "error_code": error}
