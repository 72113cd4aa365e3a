"""EndTxn (key 26, versions 0-5): a producer commits or aborts its transaction.

The answer comes when the decision is stored for good; the markers follow. From version 5 on it
carries the epoch with which the producer goes on. Only when the epochs of a producer are used up
does that need an id from the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.ending import EndTxn
from tidelog.coordinator.transactions.shard import NO_PRODUCER_ID_AT_HAND
from tidelog.coordinator.transactions.transaction import EPOCH_PER_TRANSACTION
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from tidelog.security.acls import AclOperation, ResourceType

FENCED_SINCE: Final = 2
BUMPS_SINCE: Final = 5


def handle(context: TransactionsContext, request: Request[EndTxnRequest]) -> EndTxnResponse | Later:
    """Let the coordinator decide."""
    body = request.body
    if not context.authorization.allows(
        request, AclOperation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id
    ):
        return EndTxnResponse(error_code=ErrorCode.transactional_id_authorization_failed)
    if not body.transactional_id:
        return EndTxnResponse(error_code=ErrorCode.invalid_request)
    asked = EndTxn(
        body.transactional_id,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch),
        body.committed,
        EPOCH_PER_TRANSACTION if request.api_version >= BUMPS_SINCE else 0,
    )
    later = request.park()

    def known(outcome: ProducerIdAndEpoch | Refusal) -> None:
        if not isinstance(outcome, Refusal):
            request.answer(
                EndTxnResponse(
                    producer_id=outcome.producer_id, producer_epoch=outcome.producer_epoch
                )
            )
            return
        code = outcome.code
        if code is ErrorCode.producer_fenced and request.api_version < FENCED_SINCE:
            code = ErrorCode.invalid_producer_epoch
        request.answer(EndTxnResponse(error_code=code))

    def ask(then: Callable[[ProducerIdAndEpoch | Refusal], None]) -> None:
        context.transactions.ask(
            request.now,
            asked.transactional_id,
            lambda shard: shard.end(asked, request.now),
            then,
        )

    def tried(outcome: ProducerIdAndEpoch | Refusal) -> None:
        if outcome is NO_PRODUCER_ID_AT_HAND:
            context.producer_ids.refill(request.now, lambda refusal: ask(known))
        else:
            known(outcome)

    ask(tried)
    return later
