"""ListTransactions (key 66, versions 0-2): the transactional ids that this broker coordinates."""

from __future__ import annotations

from typing import Any

from tidelog.coordinator.groups.consumer.expressions import Expression, MalformedExpression
from tidelog.coordinator.transactions.transaction import Transaction, TransactionState
from tidelog.model.errors import ErrorCode
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: TransactionsContext, request: Request[Any]) -> Reply:
    """List those that pass every filter; an empty filter lets all pass."""
    if context.transactions.are_loading:
        return _refused(ErrorCode.coordinator_load_in_progress)
    pattern = field(request.body, "transactional_id_pattern", None)
    try:
        expression = Expression(pattern) if pattern else None
    except MalformedExpression:
        return _refused(ErrorCode.invalid_regular_expression)
    known = {state.title for state in TransactionState}
    asked = request.body.state_filters
    return {
        "error_code": ErrorCode.none,
        "unknown_state_filters": [name for name in dict.fromkeys(asked) if name not in known],
        "transaction_states": [
            {
                "transactional_id": transaction.transactional_id,
                "producer_id": transaction.producer.producer_id,
                "transaction_state": transaction.state.title,
            }
            for shard in context.transactions.active()
            for transaction in shard.transactions()
            if _passes(transaction, request)
            and (expression is None or expression.matches(transaction.transactional_id))
        ],
    }


def _refused(error: ErrorCode) -> Fields:
    return {"error_code": error, "unknown_state_filters": [], "transaction_states": []}


def _passes(transaction: Transaction, request: Request[Any]) -> bool:
    body = request.body
    longer_than_ms = field(body, "duration_filter", -1)
    return (
        (not body.state_filters or transaction.state.title in body.state_filters)
        and (
            not body.producer_id_filters
            or transaction.producer.producer_id in body.producer_id_filters
        )
        and (
            longer_than_ms < 0
            or (
                not transaction.is_idle
                and request.now.wall_ms - transaction.started_ms > longer_than_ms
            )
        )
    )
