"""DescribeTransactions (key 65, version 0): what a coordinator knows of transactional ids."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from tidelog.coordinator.result import CoordinatorResult
from tidelog.coordinator.transactions.records import TransactionRecord, by_topic
from tidelog.coordinator.transactions.shard import TransactionShard
from tidelog.coordinator.transactions.transaction import Transaction
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    DescribeTransactionsResponseTopicData,
    DescribeTransactionsResponseTransactionState,
)
from tidelog.security.acls import AclOperation, ResourceType

DENIED: Final = Refusal(
    ErrorCode.transactional_id_authorization_failed, "Transactional Id authorization failed."
)


def handle(
    context: TransactionsContext, request: Request[DescribeTransactionsRequest]
) -> DescribeTransactionsResponse | Later:
    """Describe each of them."""
    wanted = request.body.transactional_ids
    authorization = context.authorization
    denied = authorization.denied(
        request, AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, wanted
    )
    later = request.park()

    def ask(transactional_id: str, then: Callable[[Transaction | Refusal | None], None]) -> None:
        if transactional_id in denied:
            then(DENIED)
        elif transactional_id:
            look_up = partial(_look_up, transactional_id)
            context.transactions.ask(request.now, transactional_id, look_up, then)
        else:
            then(Refusal(ErrorCode.invalid_request, "a transactional id is not empty"))

    def known(outcomes: list[Transaction | Refusal | None]) -> None:
        def may_see(topic: str) -> bool:
            describe, kind = AclOperation.DESCRIBE, ResourceType.TOPIC
            return authorization.allows(request, describe, kind, topic, quietly=True)

        described = [_describe(*each, may_see) for each in zip(wanted, outcomes, strict=True)]
        request.answer(DescribeTransactionsResponse(transaction_states=described))

    gather(wanted, ask, known)
    return later


def _look_up(
    transactional_id: str, shard: TransactionShard
) -> CoordinatorResult[TransactionRecord, Transaction | None]:
    return CoordinatorResult((), shard.describe(transactional_id))


def _describe(
    transactional_id: str,
    outcome: Transaction | Refusal | None,
    may_see: Callable[[str], bool],
) -> DescribeTransactionsResponseTransactionState:
    if outcome is None or isinstance(outcome, Refusal):
        missing = ErrorCode.transactional_id_not_found
        return DescribeTransactionsResponseTransactionState(
            error_code=missing if outcome is None else outcome.code,
            transactional_id=transactional_id,
        )
    return DescribeTransactionsResponseTransactionState(
        transactional_id=transactional_id,
        transaction_state=outcome.state.title,
        transaction_timeout_ms=outcome.timeout_ms,
        transaction_start_time_ms=outcome.started_ms,
        producer_id=outcome.producer.producer_id,
        producer_epoch=outcome.producer.producer_epoch,
        topics=[
            DescribeTransactionsResponseTopicData(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(outcome.partitions).items()
            if may_see(topic)
        ],
    )
