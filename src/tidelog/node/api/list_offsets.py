"""ListOffsets (key 2, versions 1-11): offsets by position in the log or by time.

An answer carries the leader epoch of the record it points at, not the current one, so that a
consumer can tell later whether that record is still the same. A new leader whose high watermark
is still behind the start of its epoch gives away no end of the log, lest it steps back.
"""

from __future__ import annotations

from collections import Counter
from typing import Final, NamedTuple

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.model.ids import NO_EPOCH, TopicPartition
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from tidelog.records.batch import CorruptBatch
from tidelog.replication.partition import Partition
from tidelog.security.acls import AclOperation, ResourceType

LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
EARLIEST_LOCAL: Final = -4
LATEST_TIERED: Final = -5
EARLIEST_PENDING_UPLOAD: Final = -6
SINCE_VERSION: Final = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}
READ_COMMITTED: Final = 1
CONSUMER: Final = -1
DEBUGGER: Final = -2
OFFSET_NOT_AVAILABLE_SINCE: Final = 5


class FoundOffset(NamedTuple):
    """One offset, when its record was written, and under which leader."""

    timestamp: int = -1
    offset: int = -1
    leader_epoch: int = NO_EPOCH


def handle(context: RecordsContext, request: Request[ListOffsetsRequest]) -> ListOffsetsResponse:
    """Answer each partition on its own."""
    body = request.body
    asked = Counter(
        TopicPartition(topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    )
    twice = {name for name, times in asked.items() if times > 1}
    denied = context.authorization.denied(
        request, AclOperation.DESCRIBE, ResourceType.TOPIC, (topic.name for topic in body.topics)
    )
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[
                    _denied(partition)
                    if topic.name in denied
                    else _answer(context, request, topic.name, partition, twice)
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )


def _denied(asked: ListOffsetsPartition) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index, error_code=ErrorCode.topic_authorization_failed
    )


def _answer(
    context: RecordsContext,
    request: Request[ListOffsetsRequest],
    topic: str,
    asked: ListOffsetsPartition,
    twice: set[TopicPartition],
) -> ListOffsetsPartitionResponse:
    name = TopicPartition(topic, asked.partition_index)
    if name in twice:
        found: FoundOffset | ErrorCode = ErrorCode.invalid_request
    elif asked.timestamp < 0 and request.api_version < SINCE_VERSION.get(asked.timestamp, 1 << 15):
        found = ErrorCode.unsupported_version
    else:
        found = _find(context, request.body, name, asked)
    if found is ErrorCode.offset_not_available and (
        request.api_version < OFFSET_NOT_AVAILABLE_SINCE
    ):
        found = ErrorCode.leader_not_available
    if isinstance(found, ErrorCode):
        return ListOffsetsPartitionResponse(partition_index=asked.partition_index, error_code=found)
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        timestamp=found.timestamp,
        offset=found.offset,
        leader_epoch=found.leader_epoch,
    )


def _find(
    context: RecordsContext,
    body: ListOffsetsRequest,
    name: TopicPartition,
    asked: ListOffsetsPartition,
) -> FoundOffset | ErrorCode:
    partition = context.replicas.locate(context.cluster.image, name, None)
    if isinstance(partition, ErrorCode):
        return partition
    fenced = partition.fence(asked.current_leader_epoch)
    if fenced is not None:
        return fenced.code
    if not partition.is_leader and body.replica_id != DEBUGGER:
        return ErrorCode.not_leader_or_follower
    is_client = body.replica_id == CONSUMER
    if not is_client:
        limit = partition.log.end_offset
    elif body.isolation_level == READ_COMMITTED:
        limit = partition.last_stable_offset
    else:
        limit = partition.high_watermark.offset
    try:
        found = _look_up(partition, asked.timestamp, limit)
    except DiskError:
        return ErrorCode.kafka_storage_error
    except CorruptBatch:
        return ErrorCode.corrupt_message
    if found is not None and asked.timestamp != LATEST:
        return found
    leader = partition.leading
    if is_client and leader is not None and leader.is_high_watermark_behind_epoch:
        return ErrorCode.offset_not_available
    return found or FoundOffset()


def _look_up(partition: Partition, timestamp: int, limit: int) -> FoundOffset | None:
    """The offset asked for; None when it is not below the limit."""
    log = partition.log
    if timestamp == LATEST:
        return FoundOffset(offset=limit, leader_epoch=partition.leader_epoch)
    if timestamp in (EARLIEST, EARLIEST_LOCAL):
        return FoundOffset(offset=log.start_offset, leader_epoch=_epoch_at_start(partition))
    if timestamp in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return FoundOffset()
    if timestamp == MAX_TIMESTAMP:
        at = log.max_timestamp_offset(limit)
    else:
        at = log.offset_for_timestamp(timestamp, limit)
    return None if at is None else FoundOffset(at.timestamp, at.offset, at.leader_epoch)


def _epoch_at_start(partition: Partition) -> int:
    entries = partition.log.epochs.entries
    if entries and entries[0][1] <= partition.log.start_offset:
        return entries[0][0]
    return NO_EPOCH
