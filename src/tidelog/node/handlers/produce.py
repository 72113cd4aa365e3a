"""Produce (key 0, versions 3-13): the way of a record into the log.

Each partition is judged on its own; one refused batch does not stop the others. With acks 0 the
client hears nothing, so any error closes the connection: the only signal there is. An answer
waits for the flushes that a topic asks for with `flush.messages` and `flush.ms`.
"""

from __future__ import annotations

from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Later, Reply, Request
from tidelog.records.batch import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL
from tidelog.records.validation import NO_BATCH, RejectedBatch, misshapen
from tidelog.replication.partition import Partition
from tidelog.wire.produce import (
    ProducedPartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_response,
)

ACKS: Final = (-1, 0, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"
NO_OFFSET: Final = -1

Answers: TypeAlias = list[tuple[str | None, UUID | None, list[ProducedPartition]]]


class Held(NamedTuple):
    """A result that is true only after a flush: where it stands, and in which epoch it began."""

    results: list[ProducedPartition]
    slot: int
    partition: Partition
    leader_epoch: int


def handle(broker: BrokerState, request: Request) -> Reply:
    """Append every batch the request carries and answer partition by partition."""
    produce: ProduceRequest = request.body
    answers: Answers = []
    held: list[Held] = []
    failed = False
    whole_refused = _refuse_request(produce)
    for topic in produce.topics:
        results: list[ProducedPartition] = []
        answers.append((topic.name, topic.topic_id, results))
        if whole_refused is not None:
            results += [_refused(index, whole_refused) for index, _ in topic.partitions]
        else:
            _append_topic(broker, request, produce.acks, topic, results, held)
        failed = failed or any(result.error for result in results)
    if produce.acks == 0:
        return Later.HANG_UP if failed else Later.NO_REPLY
    if held:
        return _answer_after_flushes(broker, request, answers, held)
    return [_encode(broker, request, answers)]


def _refuse_request(produce: ProduceRequest) -> Refusal | None:
    if produce.transactional_id is None:
        for topic in produce.topics:
            for _, records in topic.partitions:
                if records is not None and _is_transactional(records):
                    return Refusal(
                        ErrorCode.transactional_id_authorization_failed,
                        "a transactional batch needs a transactional id",
                    )
    return None


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) > ATTRIBUTES_AT
        and records[ATTRIBUTES_AT] & TRANSACTIONAL != 0
        and records[MAGIC_AT] == MAGIC
    )


def _append_topic(
    broker: BrokerState,
    request: Request,
    acks: int,
    topic: ProduceTopic,
    results: list[ProducedPartition],
    held: list[Held],
) -> None:
    name, topic_id = topic.name, topic.topic_id
    if topic_id is not None:
        name = broker.topic_name(topic_id)
    topic_refused = _refuse_topic(request, acks, name)
    for index, records in topic.partitions:
        target = None if name is None else TopicPartition(name, index)
        found = broker.replicas.locate(broker.image, target, topic_id)
        if topic_refused is not None or isinstance(found, ErrorCode) or not found.is_leader:
            results.append(
                _refused_unread(broker, request, index, records, target, topic_refused, found)
            )
            continue
        results.append(_append(request, found, index, records))
        if found.owed_flush is not None:
            broker.flushes.begin_owed(found)
        if found.flushes_under_way and not results[-1].error:
            held.append(Held(results, len(results) - 1, found, found.leader_epoch))


def _refuse_topic(request: Request, acks: int, name: str | None) -> Refusal | None:
    if acks not in ACKS:
        why = f"acks must be -1, 0 or 1, not {acks}"
        return Refusal(ErrorCode.invalid_required_acks, why)
    if name in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT_ID:
        return Refusal(ErrorCode.invalid_topic_exception, f"{name} is an internal topic")
    return None


def _refused_unread(
    broker: BrokerState,
    request: Request,
    index: int,
    records: memoryview | None,
    target: TopicPartition | None,
    topic_refused: Refusal | None,
    found: Partition | ErrorCode,
) -> ProducedPartition:
    """The first of several reasons, in the order of the protocol."""
    if target is None:
        return ProducedPartition(index, ErrorCode.unknown_topic_id, NO_OFFSET)
    if found is ErrorCode.unknown_topic_or_partition:
        return ProducedPartition(index, ErrorCode.unknown_topic_or_partition, NO_OFFSET)
    shape = NO_BATCH if records is None else misshapen(records, request.api_version)
    refusal = shape or topic_refused
    if refusal is not None:
        return _refused(index, refusal)
    error = found if isinstance(found, ErrorCode) else ErrorCode.not_leader_or_follower
    leader = None
    if error is ErrorCode.not_leader_or_follower:
        leader = broker.current_leader(target)
    return ProducedPartition(index, error, NO_OFFSET, current_leader=leader)


def _append(
    request: Request, partition: Partition, index: int, records: memoryview | None
) -> ProducedPartition:
    appended = partition.append(records, request.now, request.api_version)
    if isinstance(appended, RejectedBatch):
        return _refused(index, *appended)
    return ProducedPartition(
        index,
        ErrorCode.none,
        appended.first_offset,
        appended.timestamp,
        partition.log.start_offset,
    )


def _refused(
    index: int, refusal: Refusal, record_errors: tuple[tuple[int, str], ...] = ()
) -> ProducedPartition:
    return ProducedPartition(
        index, refusal.code, NO_OFFSET, record_errors=record_errors, error_message=refusal.why
    )


def _answer_after_flushes(
    broker: BrokerState, request: Request, answers: Answers, held: list[Held]
) -> Later:
    later = request.park()
    request.body = None  # the batches lie in a buffer that is not ours for that long
    waiting = len(held)

    def flushed(result: Held, error: str | None) -> None:
        nonlocal waiting
        waiting -= 1
        code = ErrorCode.none
        if error is not None:
            code = ErrorCode.kafka_storage_error
        elif not result.partition.leads_in(result.leader_epoch):
            code = ErrorCode.not_leader_or_follower
        if code:
            index = result.results[result.slot].index
            result.results[result.slot] = ProducedPartition(index, code, NO_OFFSET)
        if waiting == 0:
            request.answer([_encode(broker, request, answers)])

    for result in held:
        broker.flushes.after_owed(result.partition, partial(flushed, result))
    return later


def _encode(broker: BrokerState, request: Request, answers: Answers) -> bytes:
    leaders = [
        result.current_leader[0]
        for _, _, results in answers
        for result in results
        if result.current_leader is not None
    ]
    return encode_produce_response(
        request.api_version,
        request.correlation_id,
        answers,
        broker.leader_endpoints(leaders, request.connection.listener),
        0,
    )
