"""AddPartitionsToTxn (key 24, versions 0-5): partitions take part in a transaction.

Clients send versions 0 to 3, for one transaction. Leaders send later ones, for several, to add a
partition on behalf of a client or only to ask whether it takes part.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.add_partitions import AddPartitionsToTxn
from tidelog.coordinator.transactions.records import by_topic
from tidelog.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.coordination.transaction_joining import Verdicts
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnResult,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
    AddPartitionsToTxnTransaction,
)
from tidelog.security.acls import AclOperation, ResourceType

MANY_SINCE: Final = 4
FENCED_SINCE: Final = 2
_NOT_ASKED: Final = frozenset(
    {ErrorCode.unknown_topic_or_partition, ErrorCode.topic_authorization_failed}
)
"""Verdicts on partitions on whose account the coordinator was not asked."""


def handle(
    context: TransactionsContext, request: Request[AddPartitionsToTxnRequest]
) -> AddPartitionsToTxnResponse | Later:
    """Let the coordinator decide about each transaction."""
    if request.api_version >= MANY_SINCE:
        if not context.authorization.allows_on_cluster(request, AclOperation.CLUSTER_ACTION):
            denied = ErrorCode.cluster_authorization_failed
            return AddPartitionsToTxnResponse(error_code=denied)
        return _handle_many(context, request)
    body = request.body
    topics = body.v3_and_below_topics
    refused = _refused(context, request, topics)
    if refused:
        return _of_one_transaction(topics, refused)
    later = request.park()
    asked = AddPartitionsToTxn(
        body.v3_and_below_transactional_id,
        ProducerIdAndEpoch(body.v3_and_below_producer_id, body.v3_and_below_producer_epoch),
        frozenset(_names(topics)),
    )

    def known(outcomes: Verdicts) -> None:
        if request.api_version < FENCED_SINCE:
            outcomes = {name: _as_old(code) for name, code in outcomes.items()}
        request.answer(_of_one_transaction(topics, outcomes))

    context.joining.ask_here(request.now, asked, adds=True, then=known)
    return later


def _handle_many(
    context: TransactionsContext, request: Request[AddPartitionsToTxnRequest]
) -> Later:
    transactions = request.body.transactions
    later = request.park()

    def ask(transaction: AddPartitionsToTxnTransaction, then: Callable[[Verdicts], None]) -> None:
        asked = AddPartitionsToTxn(
            transaction.transactional_id,
            ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch),
            frozenset(_names(transaction.topics)),
            EPOCH_PER_TRANSACTION if request.api_version > MANY_SINCE else 0,
        )
        context.joining.ask_here(request.now, asked, adds=not transaction.verify_only, then=then)

    def known(outcomes: list[Verdicts]) -> None:
        results = [
            AddPartitionsToTxnResult(
                transactional_id=transaction.transactional_id,
                topic_results=_results(transaction.topics, verdicts),
            )
            for transaction, verdicts in zip(transactions, outcomes, strict=True)
        ]
        request.answer(AddPartitionsToTxnResponse(results_by_transaction=results))

    gather(transactions, ask, known)
    return later


def _refused(
    context: TransactionsContext,
    request: Request[AddPartitionsToTxnRequest],
    topics: Sequence[AddPartitionsToTxnTopic],
) -> Verdicts:
    """Whom only brokers may write to is not for clients, nor is anything asked for beside it.

    Nor is a topic that the client may not write to.
    """
    names = _names(topics)
    authorization = context.authorization
    transactional_id = request.body.v3_and_below_transactional_id
    if not authorization.allows(
        request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, transactional_id
    ):
        return dict.fromkeys(names, ErrorCode.transactional_id_authorization_failed)
    denied = INTERNAL_TOPICS | authorization.denied(
        request,
        AclOperation.WRITE,
        ResourceType.TOPIC,
        (topic.name for topic in topics if topic.name not in INTERNAL_TOPICS),
    )
    if not any(name.topic in denied for name in names):
        return {}
    image = context.cluster.image
    return {
        name: ErrorCode.topic_authorization_failed
        if name.topic in denied
        else ErrorCode.unknown_topic_or_partition
        if image.partition(*name) is None
        else ErrorCode.operation_not_attempted
        for name in names
    }


def _as_old(code: ErrorCode) -> ErrorCode:
    return ErrorCode.invalid_producer_epoch if code is ErrorCode.producer_fenced else code


def _names(topics: Sequence[AddPartitionsToTxnTopic]) -> list[TopicPartition]:
    return [TopicPartition(topic.name, index) for topic in topics for index in topic.partitions]


def _of_one_transaction(
    topics: Sequence[AddPartitionsToTxnTopic], outcomes: Verdicts
) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(results_by_topic_v3_and_below=_results(topics, outcomes))


def _results(
    topics: Sequence[AddPartitionsToTxnTopic], outcomes: Verdicts
) -> list[AddPartitionsToTxnTopicResult]:
    """Everything as it was named; or once, if the coordinator was not asked."""
    if not _NOT_ASKED.isdisjoint(outcomes.values()):
        return [
            _topic(topic, partitions, outcomes) for topic, partitions in by_topic(outcomes).items()
        ]
    return [_topic(topic.name, topic.partitions, outcomes) for topic in topics]


def _topic(
    topic: str, partitions: Iterable[int], outcomes: Verdicts
) -> AddPartitionsToTxnTopicResult:
    return AddPartitionsToTxnTopicResult(
        name=topic,
        results_by_partition=[
            AddPartitionsToTxnPartitionResult(
                partition_index=index,
                partition_error_code=outcomes[TopicPartition(topic, index)],
            )
            for index in partitions
        ],
    )
