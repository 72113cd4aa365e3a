"""A transactional id as its coordinator knows it: who produces under it, and its transaction.

    Empty ──▶ Ongoing ──▶ PrepareCommit ──▶ CompleteCommit ──▶ Ongoing …
                     └──▶ PrepareAbort ───▶ CompleteAbort ───▶ Ongoing …

Invariant  A prepared end is never taken back: its markers are written until all are there.
Invariant  Producer epochs only rise; the end of a transaction is marked with an epoch that no
           record of the transaction has, so that a late record can be told from a new one.
Invariant  The moment of the last change never steps back, and every end is later than the one
           before it, although coordinators change and clocks err.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Final

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition

EPOCH_MAX: Final = 2**15 - 1
NO_TIMEOUT: Final = 2**31 - 1
"""The timeout of a transaction that takes part in a two-phase commit: it ends when it is told."""
NO_TIMESTAMP: Final = -1
NO_PRODUCER_ID: Final = -1
NO_EPOCH: Final = -1
EPOCH_PER_TRANSACTION: Final = 2
"""The transaction version from which on every transaction has an epoch of its own (KIP-890)."""
STILL_ENDING: Final = Refusal(
    ErrorCode.concurrent_transactions, "the last transaction is still ending"
)
"""What everybody is told while markers are due, whoever they are: come again, then it is judged."""


class TransactionState(IntEnum):
    """The state of a transactional id; the value is what is stored."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def title(self) -> str:
        """As clients and tools write it."""
        return self.name.title().replace("_", "")


ENDING: Final = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
IDLE: Final = (
    TransactionState.EMPTY,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Transaction:
    """One transactional id; every change makes a new value, which is stored whole."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    """Whose records, or markers, are written under this id."""
    previous_producer_id: int = NO_PRODUCER_ID
    """Whose epochs are used up."""
    next_producer: ProducerIdAndEpoch | None = None
    """Who goes on after this transaction, if that is not the same id and epoch."""
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    started_ms: int = NO_TIMESTAMP
    updated_ms: int
    client_version: int = 0
    """The transaction version in which the client speaks."""
    last_epoch: int = NO_EPOCH
    """The epoch before the producer asked for its current one, to know a repeat of that question.

    Not stored: after a change of coordinator such a repeat is refused."""

    @property
    def is_ongoing(self) -> bool:
        return self.state is TransactionState.ONGOING

    @property
    def is_ending(self) -> bool:
        return self.state in ENDING

    @property
    def is_idle(self) -> bool:
        return self.state in IDLE

    @property
    def commits(self) -> bool:
        """Whether the end that is under way, or was reached, is a commit."""
        return self.state in (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)

    @property
    def heir(self) -> ProducerIdAndEpoch:
        """Who produces under this id once the transaction has ended."""
        return self.producer if self.next_producer is None else self.next_producer

    def is_overdue(self, wall_ms: int) -> bool:
        """Whether it is open for longer than its producer allowed."""
        return (
            self.is_ongoing
            and self.timeout_ms != NO_TIMEOUT
            and self.started_ms + self.timeout_ms < wall_ms
        )


def is_exhausted(epoch: int) -> bool:
    """Whether a producer id has no epoch left; one is kept back, to fence the last user of it."""
    return epoch >= EPOCH_MAX - 1


def joined(
    transaction: Transaction,
    partitions: frozenset[TopicPartition],
    client_version: int,
    wall_ms: int,
) -> Transaction:
    """With partitions that take part in its transaction, which begins with the first of them."""
    return replace(
        transaction,
        state=TransactionState.ONGOING,
        partitions=transaction.partitions | partitions,
        started_ms=transaction.started_ms if transaction.is_ongoing else wall_ms,
        updated_ms=max(wall_ms, transaction.updated_ms),
        client_version=client_version,
    )


def fenced(transaction: Transaction, version: int, wall_ms: int) -> Transaction:
    """With its open transaction about to be aborted, and its producer shut out."""
    bumped, heir = _after(transaction)
    return replace(
        transaction,
        producer=bumped,
        next_producer=heir,
        state=TransactionState.PREPARE_ABORT,
        updated_ms=_decided_ms(transaction, wall_ms),
        client_version=version,
        last_epoch=NO_EPOCH,
    )


def _decided_ms(transaction: Transaction, wall_ms: int) -> int:
    """When its end is decided: later than whatever befell it before, so that ends are in order."""
    return max(wall_ms, transaction.updated_ms + 1)


def _after(transaction: Transaction) -> tuple[ProducerIdAndEpoch, ProducerIdAndEpoch | None]:
    """Who marks the end of an open transaction, and who goes on if that is another producer id."""
    producer, heir = transaction.producer, transaction.next_producer
    if heir is not None and heir.producer_id == producer.producer_id:
        return _bumped(heir), None
    return _bumped(producer), heir


def _bumped(producer: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
    return ProducerIdAndEpoch(producer.producer_id, producer.producer_epoch + 1)


def prepared(
    transaction: Transaction,
    *,
    commit: bool,
    version: int,
    fresh_producer_id: int,
    wall_ms: int,
) -> Transaction:
    """On its way to an end, as the client wants it.

    From transaction version 2 on the client goes on with the next epoch. `fresh_producer_id` is
    who goes on when there is none.
    """
    producer, heir = transaction.producer, transaction.next_producer
    client = transaction.heir
    if version >= EPOCH_PER_TRANSACTION:
        producer, heir = _after(transaction)
        if is_exhausted(client.producer_epoch):
            heir = ProducerIdAndEpoch(fresh_producer_id, 0)
        elif heir is not None:
            heir = _bumped(heir)
    elif heir is not None and heir.producer_id == producer.producer_id:
        producer, heir = heir, None
    return replace(
        transaction,
        producer=producer,
        next_producer=heir,
        state=TransactionState.PREPARE_COMMIT if commit else TransactionState.PREPARE_ABORT,
        started_ms=transaction.started_ms if transaction.is_ongoing else wall_ms,
        updated_ms=_decided_ms(transaction, wall_ms),
        client_version=version,
        last_epoch=client.producer_epoch,
    )


def completed(transaction: Transaction, wall_ms: int) -> Transaction:
    """At its end: all markers are written."""
    commits = transaction.commits
    rotated = transaction.next_producer is not None
    return replace(
        transaction,
        producer=transaction.heir,
        previous_producer_id=(
            transaction.producer.producer_id if rotated else transaction.previous_producer_id
        ),
        next_producer=None,
        state=TransactionState.COMPLETE_COMMIT if commits else TransactionState.COMPLETE_ABORT,
        partitions=frozenset(),
        updated_ms=max(wall_ms, transaction.updated_ms),
    )
