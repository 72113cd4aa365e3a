"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates."""

from __future__ import annotations

from tidelog.coordinator.groups.consumer.expressions import Expression, MalformedExpression
from tidelog.coordinator.transactions.transaction import Transaction, TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.core.request import Request
from tidelog.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
    ListTransactionsResponseTransactionState,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(
    context: TransactionsContext, request: Request[ListTransactionsRequest]
) -> ListTransactionsResponse:
    """List those that pass every filter; an empty filter lets all pass."""
    body = request.body
    if context.transactions.are_loading:
        return ListTransactionsResponse(error_code=ErrorCode.coordinator_load_in_progress)
    pattern = body.transactional_id_pattern
    try:
        expression = Expression(pattern) if pattern else None
    except MalformedExpression:
        return ListTransactionsResponse(error_code=ErrorCode.invalid_regular_expression)
    known = {state.title for state in TransactionState}
    return ListTransactionsResponse(
        unknown_state_filters=[
            name for name in dict.fromkeys(body.state_filters) if name not in known
        ],
        transaction_states=[
            ListTransactionsResponseTransactionState(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer.producer_id,
                transaction_state=transaction.state.title,
            )
            for shard in context.transactions.active()
            for transaction in shard.transactions()
            if _passes(transaction, body, request.now.wall_ms)
            and (expression is None or expression.matches(transaction.transactional_id))
            and context.authorization.allows(
                request,
                AclOperation.DESCRIBE,
                ResourceType.TRANSACTIONAL_ID,
                transaction.transactional_id,
                quietly=True,
            )
        ],
    )


def _passes(transaction: Transaction, body: ListTransactionsRequest, wall_ms: int) -> bool:
    longer_than_ms = body.duration_filter
    return (
        (not body.state_filters or transaction.state.title in body.state_filters)
        and (
            not body.producer_id_filters
            or transaction.producer.producer_id in body.producer_id_filters
        )
        and (
            longer_than_ms < 0
            or (not transaction.is_idle and wall_ms - transaction.started_ms > longer_than_ms)
        )
    )
