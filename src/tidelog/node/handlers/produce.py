"""Produce (key 0, versions 3-13): the way of a record into the log.

Each partition is judged on its own; one refused batch does not stop the others. With acks 0 the
client hears nothing, so any error closes the connection: the only signal there is.
"""

from __future__ import annotations

from typing import Final
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Later, Reply, Request
from tidelog.records.validation import RejectedBatch
from tidelog.wire.produce import (
    ProducedPartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_response,
)

ACKS: Final = (-1, 0, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"
NO_OFFSET: Final = -1


def handle(broker: BrokerState, request: Request) -> Reply:
    """Append every batch the request carries and answer partition by partition."""
    produce: ProduceRequest = request.body
    answers: list[tuple[str | None, UUID | None, list[ProducedPartition]]] = []
    failed = False
    for topic in produce.topics:
        results = _append_topic(broker, request, produce.acks, topic)
        failed = failed or any(result.error for result in results)
        answers.append((topic.name, topic.topic_id, results))
    if produce.acks == 0:
        return Later.HANG_UP if failed else Later.NO_REPLY
    endpoints = broker.leader_endpoints(
        result.current_leader[0]
        for _, _, results in answers
        for result in results
        if result.current_leader is not None
    )
    encoded = encode_produce_response(
        request.api_version, request.correlation_id, answers, endpoints, 0
    )
    return [encoded]


def _append_topic(
    broker: BrokerState, request: Request, acks: int, topic: ProduceTopic
) -> list[ProducedPartition]:
    name = topic.name
    if topic.topic_id is not None:
        name = broker.topic_name(topic.topic_id)
    refused = _refuse_topic(request, acks, name)
    results = []
    for index, records in topic.partitions:
        if refused is not None:
            results.append(_refused(index, *refused))
            continue
        target = None if name is None else TopicPartition(name, index)
        results.append(_append(broker, request, target, topic, index, records))
    return results


def _refuse_topic(request: Request, acks: int, name: str | None) -> tuple[ErrorCode, str] | None:
    if acks not in ACKS:
        return ErrorCode.invalid_required_acks, f"acks must be -1, 0 or 1, not {acks}"
    if name in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT_ID:
        return ErrorCode.invalid_topic_exception, f"{name} is an internal topic"
    return None


def _append(
    broker: BrokerState,
    request: Request,
    target: TopicPartition | None,
    topic: ProduceTopic,
    index: int,
    records: memoryview | None,
) -> ProducedPartition:
    partition = broker.replicas.locate(broker.image, target, topic.topic_id)
    if isinstance(partition, ErrorCode):
        return _refused(index, partition)
    if not partition.is_leader:
        leadership = partition.leadership
        return _refused(
            index,
            ErrorCode.not_leader_or_follower,
            current_leader=(leadership.leader, leadership.leader_epoch),
        )
    appended = partition.append(records, request.now, request.api_version)
    if isinstance(appended, RejectedBatch):
        return _refused(
            index, appended.refusal.code, appended.refusal.why, record_errors=appended.record_errors
        )
    append_time = request.now.wall_ms if partition.rules.log_append_time else -1
    return ProducedPartition(
        index,
        ErrorCode.none,
        appended.first_offset,
        append_time,
        partition.log.start_offset,
        (),
        None,
        None,
    )


def _refused(
    index: int,
    error: ErrorCode,
    why: str | None = None,
    *,
    record_errors: tuple[tuple[int, str], ...] = (),
    current_leader: tuple[int, int] | None = None,
) -> ProducedPartition:
    return ProducedPartition(
        index, error, NO_OFFSET, -1, NO_OFFSET, record_errors, why, current_leader
    )
