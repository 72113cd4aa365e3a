"""TxnOffsetCommit (key 28, versions 0-6): offsets that count once a transaction commits.

The coordinator of the transaction is asked first, as for any other write that begins one in a
partition; from version 5 on the offsets' partition is added on behalf of the client. From version
6 on topics go by their ids, and groups of the consumer protocol by member epochs (KIP-1319).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tidelog.coordinator.groups.offset_commits import OffsetCommit
from tidelog.coordinator.internal_topics import OFFSETS_TOPIC
from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.committed_offsets import CommittedOffsets, denied_topics
from tidelog.node.coordination.offset_verdicts import TopicVerdicts, answered_partitions
from tidelog.node.coordination.transaction_joining import Verdicts
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from tidelog.security.acls import AclOperation, ResourceType

BY_ID_SINCE: Final = 6
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


def handle(
    context: TransactionsContext, request: Request[TxnOffsetCommitRequest]
) -> TxnOffsetCommitResponse | Later:
    """Commit the offsets of partitions that exist, in the transaction."""
    body = request.body
    committed = _committed(context, request)
    denied = _denied(context, request)
    if denied is not None:
        return _response(committed.refuse_all(denied))
    if not body.group_id:
        return _response(committed.refuse_all(ErrorCode.invalid_group_id))
    if not committed.offsets:
        return _response(committed.verdicts(()))
    group_partition = context.groups.partition_of(body.group_id)
    partition = context.replicas.get(TopicPartition(OFFSETS_TOPIC, group_partition))
    if partition is None or not partition.is_leader:
        return _response(committed.verdicts(ErrorCode.not_coordinator))
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
        request.answer(_response(committed.verdicts(question.code)))
        return later
    if question is None:
        _commit(context, request, producer)
        return later

    def answered(verdicts: Verdicts, now: Now) -> None:
        request.now = now
        (code,) = verdicts.values()
        if code:
            refused = _in_version(code, request.api_version)
            request.answer(_response(committed.verdicts(refused)))
        elif not producers.is_confirmed(*producer, question):
            request.answer(_response(committed.verdicts(ErrorCode.invalid_txn_state)))
        else:
            _commit(context, request, producer)

    version = EPOCH_PER_TRANSACTION if adds else 0
    joining = AddPartitionsToTxn(
        body.transactional_id, producer, frozenset({partition.name}), version
    )
    context.joining.ask(request.now, joining, adds=adds, then=answered)
    return later


def _denied(
    context: TransactionsContext, request: Request[TxnOffsetCommitRequest]
) -> ErrorCode | None:
    body, authorization = request.body, context.authorization
    if not authorization.allows(
        request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id
    ):
        return ErrorCode.transactional_id_authorization_failed
    if not authorization.allows(request, AclOperation.READ, ResourceType.GROUP, body.group_id):
        return ErrorCode.group_authorization_failed
    return None


def _commit(
    context: TransactionsContext,
    request: Request[TxnOffsetCommitRequest],
    producer: ProducerIdAndEpoch,
) -> None:
    body = request.body
    committed = _committed(context, request)
    if not committed.offsets:
        request.answer(_response(committed.verdicts(())))
        return
    commit = OffsetCommit(
        version=request.api_version,
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=body.group_instance_id,
        offsets=committed.offsets,
        producer=producer,
    )

    def answer(codes: tuple[ErrorCode, ...] | ErrorCode) -> None:
        if codes is ErrorCode.coordinator_load_in_progress:
            codes = _in_version(codes, request.api_version)
        request.answer(_response(committed.verdicts(codes)))

    committed.commit(context.groups, commit, request.now).then(answer)


def _committed(
    context: TransactionsContext, request: Request[TxnOffsetCommitRequest]
) -> CommittedOffsets[TxnOffsetCommitRequestTopic]:
    by_id, topics = request.api_version >= BY_ID_SINCE, request.body.topics
    denied = denied_topics(context.authorization, context.cluster, request, topics, by_id)
    return CommittedOffsets(context.cluster, topics, by_id=by_id, denied=denied)


def _in_version(code: ErrorCode, version: int) -> ErrorCode:
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


def _response(
    verdicts: Iterable[TopicVerdicts[TxnOffsetCommitRequestTopic]],
) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=answered_partitions(TxnOffsetCommitResponsePartition, partitions),
            )
            for topic, partitions in verdicts
        ]
    )
