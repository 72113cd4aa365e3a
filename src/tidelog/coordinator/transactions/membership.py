"""AddPartitionsToTxn: which partitions take part in a transaction.

Invariant  Only the current producer, in its current epoch, adds partitions; one that has taken
           over a prepared transaction must end it first.
Invariant  While the last transaction is ending nobody is refused for good: who may add partitions
           is known when it has ended.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.coordinator.decision import Producer
from tidelog.coordinator.transactions.transaction import STILL_ENDING, Transaction, joined
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition


class Joining(NamedTuple):
    """Partitions that a producer writes to, or that a leader was asked to write to."""

    transactional_id: str
    producer: Producer
    partitions: frozenset[TopicPartition]
    version: int = 0
    """The transaction version in which the client speaks."""


def join(asked: Joining, known: Transaction | None, wall_ms: int) -> Transaction | Refusal:
    """The transaction with the partitions; the very same one if they take part already."""
    if known is not None and known.is_ending:
        return STILL_ENDING
    refusal = _refuse(asked, known)
    if refusal is not None or known is None:
        return refusal or _unknown(asked)
    if known.next_producer is not None:
        return Refusal(
            ErrorCode.invalid_txn_state,
            f"the prepared transaction of {asked.transactional_id} must be ended first",
        )
    if known.is_ongoing and asked.partitions <= known.partitions:
        return known
    return joined(known, asked.partitions, asked.version, wall_ms)


def verify(asked: Joining, known: Transaction | None) -> dict[TopicPartition, ErrorCode] | Refusal:
    """Whether each of the partitions takes part in the transaction."""
    refusal = _refuse(asked, known)
    if refusal is not None or known is None:
        return refusal or _unknown(asked)
    if known.is_ending:
        return STILL_ENDING
    return {
        partition: (
            ErrorCode.none if partition in known.partitions else ErrorCode.transaction_abortable
        )
        for partition in asked.partitions
    }


def _refuse(asked: Joining, known: Transaction | None) -> Refusal | None:
    if known is None or asked.producer.producer_id != known.heir.producer_id:
        return _unknown(asked)
    if asked.producer != known.heir:
        return Refusal(
            ErrorCode.producer_fenced,
            f"{asked.transactional_id} is in epoch {known.heir.producer_epoch}, not "
            f"{asked.producer.producer_epoch}",
        )
    return None


def _unknown(asked: Joining) -> Refusal:
    return Refusal(
        ErrorCode.invalid_producer_id_mapping,
        f"{asked.transactional_id} does not belong to producer {asked.producer.producer_id}",
    )
