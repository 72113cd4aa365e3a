"""EndTxn: a producer commits or aborts its transaction, and what that asks of the brokers that lead
its partitions.

Invariant  While the markers of an end are due, every request is told to come again: what it means,
           a repeat or the next transaction, is judged once the end is complete.
Invariant  A request that is sent again after that has the same answer; the opposite one is refused.
Invariant  From transaction version 2 on, the epoch tells a repeat (the one before) from the next
           transaction (the current one).
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple, Protocol

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.transaction import (
    EPOCH_MAX,
    EPOCH_PER_TRANSACTION,
    NO_EPOCH,
    NO_PRODUCER_ID,
    STILL_ENDING,
    Transaction,
    TransactionState,
    prepared,
)
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition

UNCHANGED: Final = ProducerIdAndEpoch(NO_PRODUCER_ID, NO_EPOCH)
"""What a client is told that goes on with the epoch it has."""


class EndTxn(NamedTuple):
    """What a producer asks for."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    version: int
    """The transaction version in which it speaks."""


class EndTxnOutcome(NamedTuple):
    """The transactional id afterwards, None if it stays as it is, and who the producer is then."""

    transaction: Transaction | None
    reply: ProducerIdAndEpoch


def end(
    asked: EndTxn, known: Transaction, fresh_producer_id: int, wall_ms: int
) -> EndTxnOutcome | Refusal:
    """Decide whether and how the transaction ends."""
    if asked.version >= EPOCH_PER_TRANSACTION:
        return _end_with_bump(asked, known, fresh_producer_id, wall_ms)
    return _end_without_bump(asked, known, wall_ms)


def _end_without_bump(asked: EndTxn, known: Transaction, wall_ms: int) -> EndTxnOutcome | Refusal:
    if asked.producer.producer_id != known.heir.producer_id:
        return _unknown_producer(asked)
    if asked.producer != known.heir:
        return _fenced(asked, known)
    if known.is_ending:
        return STILL_ENDING
    if known.is_ongoing:
        after = prepared(
            known,
            commit=asked.commit,
            version=asked.version,
            fresh_producer_id=NO_PRODUCER_ID,
            wall_ms=wall_ms,
        )
        return EndTxnOutcome(after, UNCHANGED)
    if known.state is TransactionState.EMPTY or known.commits != asked.commit:
        return _invalid(asked, known)
    return EndTxnOutcome(None, UNCHANGED)


def _end_with_bump(
    asked: EndTxn, known: Transaction, fresh_producer_id: int, wall_ms: int
) -> EndTxnOutcome | Refusal:
    if known.is_ending:
        return STILL_ENDING
    is_repeat = _is_repeat(asked.producer, known)
    if asked.producer.producer_id != known.heir.producer_id and not is_repeat:
        return _unknown_producer(asked)
    if is_repeat:
        if known.is_ongoing or known.state is TransactionState.EMPTY:
            return _fenced(asked, known)
        if known.commits != asked.commit:
            return _invalid(asked, known)
        return EndTxnOutcome(None, known.producer)
    if asked.producer != known.heir:
        return _fenced(asked, known)
    if not known.is_ongoing and asked.commit:
        return _invalid(asked, known)
    after = prepared(
        known,
        commit=asked.commit,
        version=asked.version,
        fresh_producer_id=fresh_producer_id,
        wall_ms=wall_ms,
    )
    return EndTxnOutcome(after, after.heir)


def _is_repeat(producer: ProducerIdAndEpoch, known: Transaction) -> bool:
    """Whether the producer does not know yet that its epoch went up with the last end."""
    epoch = producer.producer_epoch
    if producer.producer_id == known.producer.producer_id:
        return epoch + 1 == known.producer.producer_epoch
    if epoch != EPOCH_MAX - 1:
        return False
    return known.heir.producer_epoch == 0 and producer.producer_id == known.previous_producer_id


def _unknown_producer(asked: EndTxn) -> Refusal:
    return Refusal(
        ErrorCode.invalid_producer_id_mapping,
        f"{asked.transactional_id} does not belong to producer {asked.producer.producer_id}",
    )


def _fenced(asked: EndTxn, known: Transaction) -> Refusal:
    return Refusal(
        ErrorCode.producer_fenced,
        f"{asked.transactional_id} is in epoch {known.heir.producer_epoch}, not "
        f"{asked.producer.producer_epoch}",
    )


def _invalid(asked: EndTxn, known: Transaction) -> Refusal:
    request = "committed" if asked.commit else "aborted"
    return Refusal(
        ErrorCode.invalid_txn_state,
        f"{asked.transactional_id} is in state {known.state.title} and cannot be {request}",
    )


class EndedTransaction(NamedTuple):
    """A transaction whose end is decided for good, and where that is to be written."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    commit: bool
    partitions: frozenset[TopicPartition]
    decided_ms: int
    """When; one producer may end several transactions in one epoch, each later than the last."""
    coordinator_epoch: int
    version: int


class MarkerWriter(Protocol):
    """Gets markers written, however long that takes; then `TransactionShard.complete` is due."""

    def write(self, ended: EndedTransaction) -> None:
        """Have the end written in every partition of the transaction."""
        ...

    def forget(self, transactional_ids: Collection[str]) -> None:
        """Another coordinator goes on with these."""
        ...
