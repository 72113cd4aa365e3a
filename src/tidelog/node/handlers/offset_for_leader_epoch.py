"""OffsetForLeaderEpoch (key 23, versions 2-4): where the work of one leader ended."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request
from tidelog.wire.messages import field


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer each partition on its own."""
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    {
                        "partition": asked.partition,
                        **_answer(broker, TopicPartition(topic.topic, asked.partition), asked),
                    }
                    for asked in topic.partitions
                ],
            }
            for topic in request.body.topics
        ]
    }


def _answer(broker: BrokerState, name: TopicPartition, asked: Any) -> Fields:
    partition = broker.replicas.locate(broker.image, name, None)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition}
    fenced = partition.fence(field(asked, "current_leader_epoch", -1))
    if fenced is not None:
        return {"error_code": fenced.code}
    if not partition.is_leader:
        return {"error_code": ErrorCode.not_leader_or_follower}
    epoch, end = partition.log.epochs.end_offset_for(asked.leader_epoch, partition.log.end_offset)
    return {"error_code": ErrorCode.none, "leader_epoch": epoch, "end_offset": end}
