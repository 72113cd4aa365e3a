"""DeleteRecords (key 21, versions 0-2): forget the beginning of a partition.

Only what is committed can be deleted (up to the high watermark, asked for as -1), and only in
topics whose `cleanup.policy` contains delete. The answer waits until every live replica has
forgotten as much, or for as long as the request allows.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.promise import Promise, all_of
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)
from tidelog.replication.leader import LeaderReplica
from tidelog.security.acls import AclOperation, ResourceType

TO_HIGH_WATERMARK: Final = -1
NO_OFFSET: Final = -1


class Deletion(NamedTuple):
    """A result that is not true yet: where it stands, and where every replica is to begin."""

    results: list[DeleteRecordsPartitionResult]
    slot: int
    leader: LeaderReplica
    target: int

    def turns_into(self, code: ErrorCode) -> None:
        """The result is known."""
        index = self.leader.name.partition
        low = NO_OFFSET if code else self.leader.low_watermark()
        self.results[self.slot] = _result(index, low, code)


def handle(
    context: RecordsContext, request: Request[DeleteRecordsRequest]
) -> DeleteRecordsResponse | Later:
    """Delete partition by partition; answer when all of them are done."""
    topics: list[DeleteRecordsTopicResult] = []
    waiting: list[Deletion] = []
    names = (topic.name for topic in request.body.topics)
    denied = context.authorization.denied(request, AclOperation.DELETE, ResourceType.TOPIC, names)
    for topic in request.body.topics:
        results: list[DeleteRecordsPartitionResult] = []
        topics.append(DeleteRecordsTopicResult(name=topic.name, partitions=results))
        for asked in topic.partitions:
            index = asked.partition_index
            deleted: tuple[LeaderReplica, int] | ErrorCode = ErrorCode.topic_authorization_failed
            if topic.name not in denied:
                deleted = _delete(context, TopicPartition(topic.name, index), asked.offset)
            if isinstance(deleted, ErrorCode):
                results.append(_result(index, NO_OFFSET, deleted))
                continue
            leader, target = deleted
            low = leader.low_watermark()
            results.append(_result(index, low, ErrorCode.none))
            if low < target:
                waiting.append(Deletion(results, len(results) - 1, leader, target))
    response = DeleteRecordsResponse(topics=topics)
    return _answer_later(context, request, response, waiting) if waiting else response


def _result(index: int, low_watermark: int, code: ErrorCode) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(
        partition_index=index, low_watermark=low_watermark, error_code=code
    )


def _delete(
    context: RecordsContext, name: TopicPartition, offset: int
) -> tuple[LeaderReplica, int] | ErrorCode:
    """Raise the start of our own log; the leader and where its log starts now."""
    if name.topic in INTERNAL_TOPICS:
        return ErrorCode.invalid_topic_exception
    partition = context.replicas.locate(context.cluster.image, name, None)
    if isinstance(partition, ErrorCode):
        return partition
    leader = partition.leader()
    if isinstance(leader, Refusal):
        return leader.code
    if not partition.log.config.cleanup_delete:
        return ErrorCode.policy_violation
    high_watermark = partition.high_watermark.offset
    target = high_watermark if offset == TO_HIGH_WATERMARK else offset
    if not 0 <= target <= high_watermark:
        return ErrorCode.offset_out_of_range
    try:
        partition.raise_start_to(max(target, partition.log.start_offset))
    except DiskError:
        return ErrorCode.kafka_storage_error
    return leader, target


def _answer_later(
    context: RecordsContext,
    request: Request[DeleteRecordsRequest],
    response: DeleteRecordsResponse,
    waiting: list[Deletion],
) -> Later:
    outcomes: list[Promise[ErrorCode]] = [Promise() for _ in waiting]
    for deletion, outcome in zip(waiting, outcomes, strict=True):
        outcome.then(deletion.turns_into)
    parked = [
        deletion.leader.wait_for_starts(deletion.target, outcome.settle)
        for deletion, outcome in zip(waiting, outcomes, strict=True)
    ]

    def time_is_up(now: Now) -> None:
        for each in parked:
            each.time_out()

    deadline = context.runtime.deadlines.at(
        request.now.monotonic_ms + max(0, request.body.timeout_ms), time_is_up
    )

    def known(_: list[ErrorCode]) -> DeleteRecordsResponse:
        deadline.cancel()
        return response

    return request.answer_with(all_of(outcomes).map(known))
