"""InitProducerId (key 22, versions 0-6): an identity for a producer that never repeats itself.

Ids come from blocks that the controller hands out, so no id is given twice, ever, by any broker.
A transactional id belongs to its coordinator, which gives it a new epoch and fences whoever had
it before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.initialisation import InitProducerId, InitProducerIdReply
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import TransactionsContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from tidelog.security.acls import AclOperation, ResourceType

FENCED_SINCE: Final = 4
NOBODY: Final = ProducerIdAndEpoch(-1, -1)


def handle(
    context: TransactionsContext, request: Request[InitProducerIdRequest]
) -> InitProducerIdResponse | Later:
    """Give the next free id, or let the coordinator of a transactional id decide."""
    body = request.body
    denied = _denied(context, request)
    if denied is not None:
        return _refused(request, denied)
    if body.transactional_id is None:
        return _give_any(context, request)
    knows_id, knows_epoch = body.producer_id >= 0, body.producer_epoch >= 0
    if not body.transactional_id or knows_id != knows_epoch:
        return _refused(request, ErrorCode.invalid_request)
    asked = InitProducerId(
        body.transactional_id,
        body.transaction_timeout_ms,
        ProducerIdAndEpoch(body.producer_id, body.producer_epoch) if knows_id else None,
        two_phase=body.enable2_pc,
        keep_prepared=body.keep_prepared_txn,
    )
    later = request.park()
    _with_producer_id_at_hand(context, request, lambda: _ask(context, request, asked))
    return later


def _denied(
    context: TransactionsContext, request: Request[InitProducerIdRequest]
) -> ErrorCode | None:
    """Whoever may write to some topic may do so idempotently."""
    authorization, transactional_id = context.authorization, request.body.transactional_id
    if authorization.authorizer is None:
        return None
    if transactional_id is None:
        idempotently = AclOperation.IDEMPOTENT_WRITE
        if authorization.allows_some(
            request, AclOperation.WRITE, ResourceType.TOPIC
        ) or authorization.allows_on_cluster(request, idempotently):
            return None
        return ErrorCode.cluster_authorization_failed
    needed = [AclOperation.WRITE]
    if request.body.enable2_pc:
        needed.append(AclOperation.TWO_PHASE_COMMIT)
    kind = ResourceType.TRANSACTIONAL_ID
    if all(authorization.allows(request, each, kind, transactional_id) for each in needed):
        return None
    return ErrorCode.transactional_id_authorization_failed


def _with_producer_id_at_hand(
    context: TransactionsContext,
    request: Request[InitProducerIdRequest],
    then: Callable[[], None],
) -> None:
    """Go on once the coordinator can give out a producer id; without one it refuses."""
    if context.producer_ids.has_any:
        then()
    else:
        context.producer_ids.refill(request.now, lambda refusal: then())


def _ask(
    context: TransactionsContext, request: Request[InitProducerIdRequest], asked: InitProducerId
) -> None:
    def known(outcome: InitProducerIdReply | Refusal) -> None:
        if isinstance(outcome, Refusal):
            request.answer(_refused(request, outcome.code))
        else:
            request.answer(_given(*outcome))

    context.transactions.ask(
        request.now,
        asked.transactional_id,
        lambda shard: shard.initialise(asked, request.now),
        known,
    )


def _give_any(
    context: TransactionsContext, request: Request[InitProducerIdRequest]
) -> InitProducerIdResponse | Later:
    producer_id = context.producer_ids.take()
    if producer_id is not None:
        return _given(ProducerIdAndEpoch(producer_id, 0))
    later = request.park()

    def block_arrived(refusal: Refusal | None) -> None:
        taken = None if refusal is not None else context.producer_ids.take()
        if taken is None:
            request.answer(_refused(request, ErrorCode.coordinator_load_in_progress))
        else:
            request.answer(_given(ProducerIdAndEpoch(taken, 0)))

    context.producer_ids.refill(request.now, block_arrived)
    return later


def _given(
    producer: ProducerIdAndEpoch, ongoing: ProducerIdAndEpoch | None = None
) -> InitProducerIdResponse:
    ongoing = ongoing or NOBODY
    return InitProducerIdResponse(
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.producer_epoch,
    )


def _refused(request: Request[InitProducerIdRequest], error: ErrorCode) -> InitProducerIdResponse:
    if error is ErrorCode.producer_fenced and request.api_version < FENCED_SINCE:
        error = ErrorCode.invalid_producer_epoch
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
