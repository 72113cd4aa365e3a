"""OffsetForLeaderEpoch (key 23, versions 2-4): where the work of one leader ended.

A consumer asks whenever it has heard of a new leader epoch, and it may have heard of it before the
leader itself. Its answer then waits until this broker has caught up, a short while at most.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderEpochResponseEpochEndOffset,
    OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
)
from tidelog.security.acls import AclOperation, ResourceType

CATCHES_UP_MS: Final = 250


def handle(
    context: RecordsContext, request: Request[OffsetForLeaderEpochRequest]
) -> OffsetForLeaderEpochResponse | Later:
    """Answer each partition on its own."""
    if not _is_ahead_of_us(context, request):
        return _answers(context, request)
    caught_up = context.delayed_requests.delay(
        request.now, lambda: _is_ahead_of_us(context, request), CATCHES_UP_MS
    )
    return request.answer_with(caught_up.map(lambda _: _answers(context, request)))


def _is_ahead_of_us(context: RecordsContext, request: Request[OffsetForLeaderEpochRequest]) -> bool:
    """Whether a consumer names a leader epoch that is not known here yet."""
    if request.body.replica_id >= 0:
        return False
    for topic in request.body.topics:
        for asked in topic.partitions:
            partition = context.replicas.get(TopicPartition(topic.topic, asked.partition))
            if partition is not None and asked.current_leader_epoch > partition.leader_epoch:
                return True
    return False


def _answers(
    context: RecordsContext, request: Request[OffsetForLeaderEpochRequest]
) -> OffsetForLeaderEpochResponse:
    denied = _denied(context, request)
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[
                    OffsetForLeaderEpochResponseEpochEndOffset(
                        partition=asked.partition,
                        error_code=ErrorCode.topic_authorization_failed,
                    )
                    if topic.topic in denied
                    else _answer(context, topic.topic, asked)
                    for asked in topic.partitions
                ],
            )
            for topic in request.body.topics
        ]
    )


def _denied(
    context: RecordsContext, request: Request[OffsetForLeaderEpochRequest]
) -> frozenset[str]:
    """The topics that may not be described; other brokers may ask about all of them."""
    authorization = context.authorization
    if authorization.allows_on_cluster(request, AclOperation.CLUSTER_ACTION, quietly=True):
        return frozenset()
    names = (topic.topic for topic in request.body.topics)
    return authorization.denied(request, AclOperation.DESCRIBE, ResourceType.TOPIC, names)


def _answer(
    context: RecordsContext, topic: str, asked: OffsetForLeaderPartition
) -> OffsetForLeaderEpochResponseEpochEndOffset:
    name = TopicPartition(topic, asked.partition)
    found = _end_of_epoch(context, name, asked)
    if isinstance(found, ErrorCode):
        return OffsetForLeaderEpochResponseEpochEndOffset(
            partition=asked.partition, error_code=found
        )
    epoch, end = found
    return OffsetForLeaderEpochResponseEpochEndOffset(
        partition=asked.partition, leader_epoch=epoch, end_offset=end
    )


def _end_of_epoch(
    context: RecordsContext, name: TopicPartition, asked: OffsetForLeaderPartition
) -> tuple[int, int] | ErrorCode:
    partition = context.replicas.locate(context.cluster.image, name, None)
    if isinstance(partition, ErrorCode):
        return partition
    fenced = partition.fence(asked.current_leader_epoch)
    if fenced is not None:
        return fenced.code
    if not partition.is_leader:
        return ErrorCode.not_leader_or_follower
    return partition.log.epochs.end_offset_for(asked.leader_epoch, partition.log.end_offset)
