"""Produce (key 0, versions 3-13): the way of a record into the log.

Each partition is judged on its own; one refused batch does not stop the others. With acks 0 the
client hears nothing, so any error closes the connection: the only signal there is. With acks -1
the answer waits until the high watermark has passed the batch; any answer waits for the flushes
that a topic asks for with `flush.messages` and `flush.ms`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import RecordsContext
from tidelog.node.coordination.transactional_produce import OPEN, Gate
from tidelog.node.core.authorization import TOPIC_DENIED
from tidelog.node.core.deadlines import Deadline
from tidelog.node.core.request import Later, Reply, Request
from tidelog.node.core.runtime import Runtime
from tidelog.protocol.produce import (
    ProducedPartition,
    ProduceRequest,
    ProduceTopic,
    encode_produce_response,
)
from tidelog.records.batch import ATTRIBUTES_AT, MAGIC, MAGIC_AT, TRANSACTIONAL
from tidelog.records.validation import NO_BATCH, RejectedBatch, misshapen
from tidelog.replication.high_watermark import ParkedAnswer
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.partition import Partition
from tidelog.security.acls import AclOperation, ResourceType
from tidelog.storage.transaction_verification import Verification

ALL: Final = -1
ACKS: Final = (ALL, 0, 1)
ADMIN_CLIENT_ID: Final = "__admin_client"
NO_OFFSET: Final = -1
NOTHING_DENIED: Final[frozenset[str]] = frozenset()
NO_TRANSACTION: Final = Refusal(
    ErrorCode.transactional_id_authorization_failed,
    "a transactional batch needs a transactional id that its producer may write with",
)

Answers: TypeAlias = list[tuple[str | None, UUID | None, list[ProducedPartition]]]


class PendingResult(NamedTuple):
    """A result that is not true yet: where it stands, and by which leader it began."""

    results: list[ProducedPartition]
    slot: int
    partition: Partition
    leader: LeaderReplica
    end_offset: int
    """What the high watermark must reach; -1 when a flush is enough."""

    def flushed(self, error: str | None) -> ErrorCode:
        """What it is worth that everything up to here was flushed, or was not."""
        if error is not None:
            return ErrorCode.kafka_storage_error
        return ErrorCode.not_leader_or_follower if self.leader.is_over else ErrorCode.none

    def turns_into(self, code: ErrorCode, context: RecordsContext) -> None:
        """The result is known."""
        if code:
            index, leader = self.results[self.slot].index, None
            if code is ErrorCode.not_leader_or_follower:
                leader = context.cluster.current_leader(self.partition.name)
            self.results[self.slot] = ProducedPartition(
                index, code, NO_OFFSET, current_leader=leader
            )


def handle(context: RecordsContext, request: Request[ProduceRequest]) -> Reply:
    """Append every batch the request carries and answer partition by partition."""
    if request.body.transactional_id is not None:
        if _refuse_request(context, request) is not None:
            return _produce(context, request, OPEN)
        denied = NOTHING_DENIED
        if context.authorization.authorizer is not None:
            denied = _denied_topics(context, request)
        later = context.transaction_gate.wait(request, partial(_produce, context), denied)
        if later is not None:
            return later
    return _produce(context, request, OPEN)


def _produce(context: RecordsContext, request: Request[ProduceRequest], gate: Gate) -> Reply:
    produce = request.body
    answers: Answers = []
    pending: list[PendingResult] = []
    failed = False
    whole_refused = _refuse_request(context, request)
    denied = NOTHING_DENIED
    if context.authorization.authorizer is not None:
        denied = _denied_topics(context, request)
    for topic in produce.topics:
        results: list[ProducedPartition] = []
        answers.append((topic.name, topic.topic_id, results))
        if whole_refused is not None:
            results += [_refused(index, whole_refused) for index, _ in topic.partitions]
        else:
            _append_topic(context, request, topic, results, pending, gate, denied)
        failed = failed or any(result.error for result in results)
    if produce.acks == 0:
        if context.throttles.are_set:
            context.throttles.produced(request, is_answered=False)
        return Later.HANG_UP if failed else Later.NO_REPLY
    if pending:
        return _answer_later(context, request, answers, pending, produce.timeout_ms)
    return [_encode(context, request, answers)]


def _denied_topics(context: RecordsContext, request: Request[ProduceRequest]) -> frozenset[str]:
    """The topics that may not be written to now: batches that had to wait are judged again."""
    names = (
        context.cluster.topic_name(topic.topic_id) if topic.topic_id is not None else topic.name
        for topic in request.body.topics
    )
    known = (name for name in names if name is not None)
    return context.authorization.denied(request, AclOperation.WRITE, ResourceType.TOPIC, known)


def _refuse_request(context: RecordsContext, request: Request[ProduceRequest]) -> Refusal | None:
    transactional_id, authorization = request.body.transactional_id, context.authorization
    if transactional_id is not None and (
        authorization.authorizer is None
        or authorization.allows(
            request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
        )
    ):
        return None
    for topic in request.body.topics:
        for _, records in topic.partitions:
            if records is not None and _is_transactional(records):
                return NO_TRANSACTION
    return None


def _is_transactional(records: memoryview) -> bool:
    return (
        len(records) > ATTRIBUTES_AT
        and records[ATTRIBUTES_AT] & TRANSACTIONAL != 0
        and records[MAGIC_AT] == MAGIC
    )


def _append_topic(
    context: RecordsContext,
    request: Request[ProduceRequest],
    topic: ProduceTopic,
    results: list[ProducedPartition],
    pending: list[PendingResult],
    gate: Gate,
    denied: frozenset[str],
) -> None:
    acks, name, topic_id = request.body.acks, topic.name, topic.topic_id
    if topic_id is not None:
        name = context.cluster.topic_name(topic_id)
    if name in denied:
        results += [_refused(index, TOPIC_DENIED) for index, _ in topic.partitions]
        return
    topic_refused = _refuse_topic(request, acks, name)
    for index, records in topic.partitions:
        target = None if name is None else TopicPartition(name, index)
        found = context.replicas.locate(context.cluster.image, target, topic_id)
        leader = found if isinstance(found, ErrorCode) else found.leader()
        if (
            topic_refused is not None
            or isinstance(found, ErrorCode)
            or not isinstance(leader, LeaderReplica)
        ):
            results.append(
                _refused_unread(context, request, index, records, target, topic_refused, found)
            )
            continue
        if found.name in gate.refusals:
            results.append(_refused(index, gate.refusals[found.name]))
            continue
        question = gate.questions.get(found.name)
        end_offset = _append(request, found, leader, index, records, acks, results, question)
        if found.owed_flush is not None:
            context.flushes.begin_owed(found)
        if end_offset is None:
            context.runtime.counters.rejected_batches += 1
            continue
        result = PendingResult(results, len(results) - 1, found, leader, NO_OFFSET)
        if acks == ALL:
            code = leader.acknowledgement(end_offset)
            if code is None:
                pending.append(result._replace(end_offset=end_offset))
            else:
                result.turns_into(code, context)
        elif found.flushes_under_way:
            pending.append(result)


def _refuse_topic(request: Request[ProduceRequest], acks: int, name: str | None) -> Refusal | None:
    if acks not in ACKS:
        why = f"acks must be -1, 0 or 1, not {acks}"
        return Refusal(ErrorCode.invalid_required_acks, why)
    if name in INTERNAL_TOPICS and request.client_id != ADMIN_CLIENT_ID:
        return Refusal(ErrorCode.invalid_topic_exception, f"{name} is an internal topic")
    return None


def _refused_unread(
    context: RecordsContext,
    request: Request[ProduceRequest],
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
        leader = context.cluster.current_leader(target)
    return ProducedPartition(index, error, NO_OFFSET, current_leader=leader)


def _append(
    request: Request[ProduceRequest],
    partition: Partition,
    leader: LeaderReplica,
    index: int,
    records: memoryview | None,
    acks: int,
    results: list[ProducedPartition],
    question: Verification | None,
) -> int | None:
    """Append and note the result; where the batch ends, or None when it was refused."""
    appended = leader.append(records, request.now, request.api_version, acks, question)
    if isinstance(appended, RejectedBatch):
        results.append(_refused(index, *appended))
        return None
    start = partition.log.start_offset
    results.append(
        ProducedPartition(index, ErrorCode.none, appended.first_offset, appended.timestamp, start)
    )
    return appended.last_offset + 1


def _refused(
    index: int, refusal: Refusal, record_errors: tuple[tuple[int, str], ...] = ()
) -> ProducedPartition:
    return ProducedPartition(
        index, refusal.code, NO_OFFSET, record_errors=record_errors, error_message=refusal.why
    )


def _answer_later(
    context: RecordsContext,
    request: Request[ProduceRequest],
    answers: Answers,
    pending: list[PendingResult],
    timeout_ms: int,
) -> Later:
    later = request.park()
    request.drop_body()  # the batches lie in a buffer that is not ours for that long
    waiting = len(pending)
    deadline: Deadline | None = None

    def known(result: PendingResult, code: ErrorCode) -> None:
        nonlocal waiting
        waiting -= 1
        result.turns_into(code, context)
        if waiting == 0:
            if deadline is not None:
                deadline.cancel()
            request.answer([_encode(context, request, answers)])

    parked: list[ParkedAnswer] = []
    tell: Callable[[PendingResult, ErrorCode], None] = known
    if context.runtime.watch.magnified:
        tell = _seen(context.runtime, request.arrived, pending, known)
    for result in pending:
        if result.end_offset == NO_OFFSET:
            flushed = context.flushes.after_owed(result.partition)
            flushed.map(result.flushed).then(partial(tell, result))
        else:
            parked.append(result.leader.wait_for(result.end_offset, partial(tell, result)))
    if parked:

        def time_is_up(now: Now) -> None:
            for each in parked:
                each.time_out()

        deadline = context.runtime.deadlines.at(
            request.now.monotonic_ms + max(0, timeout_ms), time_is_up
        )
    return later


def _seen(
    runtime: Runtime,
    arrived: Now,
    held: list[PendingResult],
    known: Callable[[PendingResult, ErrorCode], None],
) -> Callable[[PendingResult, ErrorCode], None]:
    """The same for those who look: what waits, and how long it did."""
    for result in held:
        end_offset = result.end_offset
        runtime.watch.see(result.partition.name, runtime.now, "parked", end_offset=end_offset)

    def seen(result: PendingResult, code: ErrorCode) -> None:
        waited_ms = runtime.now.monotonic_ms - arrived.monotonic_ms
        runtime.watch.see(
            result.partition.name,
            runtime.now,
            "acknowledged",
            end_offset=result.end_offset,
            error=int(code),
            waited_ms=waited_ms,
        )
        known(result, code)

    return seen


def _encode(context: RecordsContext, request: Request[ProduceRequest], answers: Answers) -> bytes:
    throttles = context.throttles
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
        context.cluster.leader_endpoints(leaders, request.connection.listener),
        throttles.produced(request, is_answered=True) if throttles.are_set else 0,
    )
