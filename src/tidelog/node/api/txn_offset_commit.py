"""TxnOffsetCommit (key 28, versions 0-5): offsets that count once a transaction commits.

The coordinator of the transaction is asked first, as for any other write that begins one in a
partition; from version 5 on the offsets' partition is added on behalf of the client.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tidelog.coordinator.groups.offset_commits import OffsetAndMetadata, OffsetCommit
from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.offset_verdicts import offset_verdicts
from tidelog.node.coordination.transaction_joining import Verdicts
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

ADDS_SINCE: Final = 5
ABORTABLE_SINCE: Final = 4
LOADING_SINCE: Final = 2
_COORDINATOR_IS_AWAY: Final = (
    ErrorCode.network_exception,
    ErrorCode.not_coordinator,
    ErrorCode.coordinator_not_available,
    ErrorCode.unknown_topic_or_partition,
)
"""Or it has not heard yet of the partition that keeps the offsets."""


class _Question:
    """What can be committed of a request, and why the rest cannot."""

    def __init__(self, context: TransactionsContext, request: Request[Any]) -> None:
        self._topics = request.body.topics
        self._refused: list[ErrorCode | None] = []
        self.wishes: list[OffsetAndMetadata] = []
        for topic in self._topics:
            for partition in topic.partitions:
                exists = (
                    context.cluster.image.partition(topic.name, partition.partition_index)
                    is not None
                )
                self._refused.append(None if exists else ErrorCode.unknown_topic_or_partition)
                if exists:
                    self.wishes.append(_wish(context, topic.name, partition))

    def answer(self, outcome: tuple[ErrorCode, ...] | ErrorCode) -> Fields:
        """The verdicts on the wishes, or the one on all of them, beside what was refused."""
        codes = outcome if isinstance(outcome, tuple) else (outcome,) * len(self.wishes)
        return offset_verdicts(self._topics, self._refused, codes)


def handle(context: TransactionsContext, request: Request[Any]) -> Reply:
    """Commit the offsets of partitions that exist, in the transaction."""
    body = request.body
    if not body.group_id:
        return _refuse_all(body.topics, ErrorCode.invalid_group_id)
    asked = _Question(context, request)
    if not asked.wishes:
        return asked.answer(())
    group_partition = context.groups.partition_of(body.group_id)
    partition = context.replicas.get(TopicPartition(OFFSETS_TOPIC, group_partition))
    if partition is None or not partition.is_leader:
        return asked.answer(ErrorCode.not_coordinator)
    later = request.park()
    producer = ProducerIdAndEpoch(body.producer_id, body.producer_epoch)
    adds = request.api_version >= ADDS_SINCE
    asks = adds or context.cluster.config.transaction_partition_verification_enable
    producers = partition.log.producers
    question = None
    if asks:
        question = producers.begin_offsets_verification(
            *producer, request.now.wall_ms, epoch_per_transaction=adds
        )
    if isinstance(question, Refusal):
        request.answer(asked.answer(question.code))
        return later
    if question is None:
        _commit(context, request, producer)
        return later

    def answered(verdicts: Verdicts, now: Now) -> None:
        request.now = now
        (code,) = verdicts.values()
        if code:
            request.answer(asked.answer(_told(code, request.api_version)))
        elif not producers.is_confirmed(*producer, question):
            request.answer(asked.answer(ErrorCode.invalid_txn_state))
        else:
            _commit(context, request, producer)

    version = EPOCH_PER_TRANSACTION if adds else 0
    joining = AddPartitionsToTxn(
        body.transactional_id, producer, frozenset({partition.name}), version
    )
    context.joining.ask(request.now, joining, adds=adds, then=answered)
    return later


def _commit(
    context: TransactionsContext, request: Request[Any], producer: ProducerIdAndEpoch
) -> None:
    body = request.body
    asked = _Question(context, request)
    wish = OffsetCommit(
        version=request.api_version,
        group_id=body.group_id,
        generation=field(body, "generation_id", -1),
        member_id=field(body, "member_id", ""),
        instance_id=field(body, "group_instance_id", None),
        offsets=asked.wishes,
        producer=producer,
    )

    def committed(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        if isinstance(outcome, Refusal):
            code = outcome.code
            if code is ErrorCode.coordinator_load_in_progress:
                code = _told(code, request.api_version)
            request.answer(asked.answer(code))
        else:
            request.answer(asked.answer(outcome))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.commit_offsets(wish, request.now),
        committed,
    )


def _wish(context: TransactionsContext, topic: str, partition: Any) -> OffsetAndMetadata:
    return OffsetAndMetadata(
        topic,
        partition.partition_index,
        partition.committed_offset,
        field(partition, "committed_leader_epoch", -1),
        partition.committed_metadata,
        context.cluster.image.topics_by_name[topic].topic_id,
    )


def _told(code: ErrorCode, version: int) -> ErrorCode:
    """What a client of that version understands."""
    if code is ErrorCode.producer_fenced:
        return ErrorCode.invalid_producer_epoch
    if code in _COORDINATOR_IS_AWAY:
        return ErrorCode.coordinator_not_available
    if code is ErrorCode.coordinator_load_in_progress and version < LOADING_SINCE:
        return ErrorCode.coordinator_not_available
    if code is ErrorCode.transaction_abortable and version < ABORTABLE_SINCE:
        return ErrorCode.invalid_txn_state
    return code


def _refuse_all(topics: Sequence[Any], code: ErrorCode) -> Fields:
    partitions = [partition for topic in topics for partition in topic.partitions]
    return offset_verdicts(topics, [None] * len(partitions), [code] * len(partitions))
