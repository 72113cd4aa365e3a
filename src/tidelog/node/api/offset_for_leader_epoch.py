"""OffsetForLeaderEpoch (key 23, versions 2-4): where the work of one leader ended.

A consumer asks whenever it has heard of a new leader epoch, and it may have heard of it before the
leader itself. Its answer then waits until this broker has caught up, a short while at most.
"""

from __future__ import annotations

from typing import Any, Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

CATCHES_UP_MS: Final = 250


def handle(context: RecordsContext, request: Request[Any]) -> Reply:
    """Answer each partition on its own."""
    if _is_ahead_of_us(context, request):
        return context.held.hold(
            request,
            lambda: _is_ahead_of_us(context, request),
            lambda: _answers(context, request),
            CATCHES_UP_MS,
        )
    return _answers(context, request)


def _is_ahead_of_us(context: RecordsContext, request: Request[Any]) -> bool:
    """Whether a consumer names a leader epoch that is not known here yet."""
    if field(request.body, "replica_id", -1) >= 0:
        return False
    for topic in request.body.topics:
        for asked in topic.partitions:
            partition = context.replicas.get(TopicPartition(topic.topic, asked.partition))
            epoch = field(asked, "current_leader_epoch", -1)
            if partition is not None and epoch > partition.leader_epoch:
                return True
    return False


def _answers(context: RecordsContext, request: Request[Any]) -> Fields:
    return {
        "topics": [
            {
                "topic": topic.topic,
                "partitions": [
                    {
                        "partition": asked.partition,
                        **_answer(context, TopicPartition(topic.topic, asked.partition), asked),
                    }
                    for asked in topic.partitions
                ],
            }
            for topic in request.body.topics
        ]
    }


def _answer(context: RecordsContext, name: TopicPartition, asked: Any) -> Fields:
    partition = context.replicas.locate(context.cluster.image, name, None)
    if isinstance(partition, ErrorCode):
        return {"error_code": partition}
    fenced = partition.fence(field(asked, "current_leader_epoch", -1))
    if fenced is not None:
        return {"error_code": fenced.code}
    if not partition.is_leader:
        return {"error_code": ErrorCode.not_leader_or_follower}
    epoch, end = partition.log.epochs.end_offset_for(asked.leader_epoch, partition.log.end_offset)
    return {"error_code": ErrorCode.none, "leader_epoch": epoch, "end_offset": end}
