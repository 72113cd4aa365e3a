"""InitProducerId: a producer takes over a transactional id, and with it fences whoever had it.

Invariant  An epoch is given out once. Only a producer that repeats its question gets the same
           answer again.
Invariant  An open transaction of the former producer is aborted first, unless the new one says
           that it was prepared and will be decided by itself (KIP-939).
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.transaction import (
    NO_EPOCH,
    NO_TIMEOUT,
    NO_TIMESTAMP,
    STILL_ENDING,
    Transaction,
    TransactionState,
    fenced,
    is_exhausted,
)
from tidelog.model.errors import ErrorCode, Refusal


class InitProducerId(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    timeout_ms: int
    expected: ProducerIdAndEpoch | None = None
    """Who it thinks it is, if it has been somebody before."""
    two_phase: bool = False
    """Its transactions are decided elsewhere and must not time out."""
    keep_prepared: bool = False
    """It knows of a transaction that was prepared and will say how that ends."""


class InitProducerIdReply(NamedTuple):
    """The identity it is given, and whose transaction it still has to end."""

    producer: ProducerIdAndEpoch
    ongoing: ProducerIdAndEpoch | None = None


class InitProducerIdOutcome(NamedTuple):
    """The transactional id afterwards, and what to answer once that is stored."""

    transaction: Transaction
    reply: InitProducerIdReply | Refusal


_BEING_ABORTED = Refusal(
    ErrorCode.concurrent_transactions, "the transaction of the former producer is being aborted"
)


def initialise(
    asked: InitProducerId,
    known: Transaction | None,
    fresh_producer_id: int,
    version: int,
    wall_ms: int,
) -> InitProducerIdOutcome | Refusal:
    """Decide who the producer is from now on."""
    timeout_ms = NO_TIMEOUT if asked.two_phase else asked.timeout_ms
    if known is None:
        created = Transaction(
            transactional_id=asked.transactional_id,
            producer=ProducerIdAndEpoch(fresh_producer_id, 0),
            timeout_ms=timeout_ms,
            updated_ms=wall_ms,
        )
        return InitProducerIdOutcome(created, InitProducerIdReply(created.producer))
    if known.is_ending:
        return STILL_ENDING
    if asked.expected is not None and not _may_be(asked.expected, known):
        return _fenced(asked.expected, known)
    if known.is_ongoing:
        return _take_over_ongoing(asked, known, fresh_producer_id, version, timeout_ms, wall_ms)
    return _take_over_idle(asked.expected, known, fresh_producer_id, timeout_ms, wall_ms)


def _may_be(expected: ProducerIdAndEpoch, known: Transaction) -> bool:
    if expected.producer_id == known.heir.producer_id:
        return True
    return expected.producer_id == known.previous_producer_id and is_exhausted(
        expected.producer_epoch
    )


def _take_over_idle(
    expected: ProducerIdAndEpoch | None,
    known: Transaction,
    fresh_producer_id: int,
    timeout_ms: int,
    wall_ms: int,
) -> InitProducerIdOutcome | Refusal:
    producer, previous = known.producer, known.previous_producer_id
    last_epoch = NO_EPOCH
    if expected is not None and expected != producer:
        if expected.producer_epoch != known.last_epoch:
            return _fenced(expected, known)
        last_epoch = known.last_epoch  # a repeat: the answer got lost
    else:
        if expected is not None:
            last_epoch = producer.producer_epoch
        if is_exhausted(producer.producer_epoch):
            producer, previous = ProducerIdAndEpoch(fresh_producer_id, 0), producer.producer_id
        else:
            producer = ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch + 1)
    after = replace(
        known,
        producer=producer,
        previous_producer_id=previous,
        timeout_ms=timeout_ms,
        state=TransactionState.EMPTY,
        started_ms=NO_TIMESTAMP,
        updated_ms=max(wall_ms, known.updated_ms),
        last_epoch=last_epoch,
    )
    return InitProducerIdOutcome(after, InitProducerIdReply(producer))


def _take_over_ongoing(
    asked: InitProducerId,
    known: Transaction,
    fresh_producer_id: int,
    version: int,
    timeout_ms: int,
    wall_ms: int,
) -> InitProducerIdOutcome | Refusal:
    current = known.heir
    if asked.expected is not None and asked.expected.producer_epoch < current.producer_epoch:
        return _fenced(asked.expected, known)
    if not asked.keep_prepared:
        return InitProducerIdOutcome(fenced(known, version, wall_ms), _BEING_ABORTED)
    if is_exhausted(current.producer_epoch):
        heir = ProducerIdAndEpoch(fresh_producer_id, 0)
    else:
        heir = ProducerIdAndEpoch(current.producer_id, current.producer_epoch + 1)
    updated_ms = max(wall_ms, known.updated_ms)
    after = replace(known, next_producer=heir, timeout_ms=timeout_ms, updated_ms=updated_ms)
    return InitProducerIdOutcome(after, InitProducerIdReply(heir, known.producer))


def _fenced(expected: ProducerIdAndEpoch, known: Transaction) -> Refusal:
    return Refusal(
        ErrorCode.producer_fenced,
        f"{known.transactional_id} belongs to producer {known.heir.producer_id} in epoch "
        f"{known.heir.producer_epoch}, not to {expected.producer_id} in {expected.producer_epoch}",
    )
