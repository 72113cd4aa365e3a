"""DeleteRecords (key 21, versions 0-2): forget the beginning of a partition.

Only what is committed can be deleted (up to the high watermark, asked for as -1), and only in
topics whose `cleanup.policy` contains delete. The answer waits until every live replica has
forgotten as much, or for as long as the request allows.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tidelog.model.errors import DiskError, ErrorCode, Refusal
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import milliseconds
from tidelog.replication.high_watermark import ParkedAnswer
from tidelog.replication.leader import LeaderReplica

TO_HIGH_WATERMARK: Final = -1


def handle(context: RecordsContext, request: Request[Any]) -> Reply:
    """Delete partition by partition; answer when all of them are done."""
    results: list[tuple[str, list[dict[str, Any]]]] = []
    waiting: list[tuple[LeaderReplica, int, dict[str, Any]]] = []
    for topic in request.body.topics:
        answers: list[dict[str, Any]] = []
        results.append((topic.name, answers))
        for asked in topic.partitions:
            name = TopicPartition(topic.name, asked.partition_index)
            answer: dict[str, Any] = {"partition_index": asked.partition_index}
            answers.append(answer)
            deleted = _delete(context, name, asked.offset)
            if isinstance(deleted, ErrorCode):
                answer |= {"low_watermark": -1, "error_code": deleted}
                continue
            leader, target = deleted
            low = leader.low_watermark()
            answer |= {"low_watermark": low, "error_code": ErrorCode.none}
            if low < target:
                waiting.append((leader, target, answer))
    if not waiting:
        return _fields(results)
    return _answer_later(context, request, results, waiting)


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
    request: Request[Any],
    results: list[tuple[str, list[dict[str, Any]]]],
    waiting: list[tuple[LeaderReplica, int, dict[str, Any]]],
) -> Reply:
    later = request.park()
    timeout_ms = milliseconds(request.body.timeout)
    left = len(waiting)
    parked: list[ParkedAnswer] = []

    def known(leader: LeaderReplica, answer: dict[str, Any], code: ErrorCode) -> None:
        nonlocal left
        left -= 1
        low = -1 if code else leader.low_watermark()
        answer |= {"low_watermark": low, "error_code": code}
        if left == 0:
            deadline.cancel()
            request.answer(_fields(results))

    def time_is_up(now: Now) -> None:
        for each in parked:
            each.time_out()

    deadline = context.runtime.deadlines.at(
        request.now.monotonic_ms + max(0, timeout_ms), time_is_up
    )
    for leader, target, answer in waiting:
        parked.append(leader.wait_for_starts(target, partial(known, leader, answer)))
    return later


def _fields(results: list[tuple[str, list[dict[str, Any]]]]) -> Fields:
    return {"topics": [{"name": name, "partitions": answers} for name, answers in results]}
