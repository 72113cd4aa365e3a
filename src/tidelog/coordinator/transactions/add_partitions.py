"""AddPartitionsToTxn: which partitions take part in a transaction.

Invariant  Only the current producer, in its current epoch, adds partitions; one that has taken
           over a prepared transaction must end it first.
Invariant  While the last transaction is ending nobody is refused for good: who may add partitions
           is known when it has ended. They could be told to come again; they are kept waiting
           instead, for a short while, because the last marker is mostly a matter of milliseconds.
Invariant  Everybody who waits is answered once: when the end is complete, when the time is up, or
           when the coordinator is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tidelog.coordinator.result import Answer, LateReply, ProducerIdAndEpoch
from tidelog.coordinator.transactions.transaction import STILL_ENDING, Transaction, joined
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition


class AddPartitionsToTxn(NamedTuple):
    """Partitions that a producer writes to, or that a leader was asked to write to."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: frozenset[TopicPartition]
    version: int = 0
    """The transaction version in which the client speaks."""


def add_partitions(
    asked: AddPartitionsToTxn, known: Transaction | None, wall_ms: int
) -> Transaction | Refusal:
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


def verify(
    asked: AddPartitionsToTxn, known: Transaction | None
) -> dict[TopicPartition, ErrorCode] | Refusal:
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


def _refuse(asked: AddPartitionsToTxn, known: Transaction | None) -> Refusal | None:
    if known is None or asked.producer.producer_id != known.heir.producer_id:
        return _unknown(asked)
    if asked.producer != known.heir:
        return Refusal(
            ErrorCode.producer_fenced,
            f"{asked.transactional_id} is in epoch {known.heir.producer_epoch}, not "
            f"{asked.producer.producer_epoch}",
        )
    return None


def _unknown(asked: AddPartitionsToTxn) -> Refusal:
    return Refusal(
        ErrorCode.invalid_producer_id_mapping,
        f"{asked.transactional_id} does not belong to producer {asked.producer.producer_id}",
    )


class _Waiting(NamedTuple):
    asked: AddPartitionsToTxn
    answer: Answer[None]


class WaitingProducers:
    """Who waits, by transactional id and in the order in which they came."""

    __slots__ = ("_waiting",)

    def __init__(self) -> None:
        self._waiting: dict[str, list[_Waiting]] = {}

    def add(self, asked: AddPartitionsToTxn, answer: Answer[None]) -> bool:
        """Keep somebody waiting; whether nobody else waits for the same end."""
        waiting = self._waiting.setdefault(asked.transactional_id, [])
        waiting.append(_Waiting(asked, answer))
        return len(waiting) == 1

    def admit(
        self, transaction: Transaction, wall_ms: int
    ) -> tuple[list[Transaction], tuple[LateReply, ...]]:
        """The end is complete: each step of the transaction that follows, and all replies."""
        steps: list[Transaction] = []
        replies: list[LateReply] = []
        for asked, answer in self._waiting.pop(transaction.transactional_id, ()):
            after = add_partitions(asked, transaction, wall_ms)
            if isinstance(after, Refusal):
                replies.append(LateReply(answer, after))
                continue
            replies.append(LateReply(answer, None))
            if after is not transaction:
                transaction = after
                steps.append(after)
        return steps, tuple(replies)

    def give_up(self, transactional_id: str) -> tuple[LateReply, ...]:
        """The time is up for those who wait for this end."""
        waiting = self._waiting.pop(transactional_id, ())
        return tuple(LateReply(answer, STILL_ENDING) for _, answer in waiting)

    def all(self) -> Iterator[Answer[None]]:
        """Everybody, who waits no longer."""
        waiting, self._waiting = self._waiting, {}
        for each in waiting.values():
            for _, answer in each:
                yield answer
