"""One producer as one log knows it, and the rules by which a leader takes what it sends.

A log knows a producer's epoch, its last batches and its open transaction. Followers and recovery
do not ask for leave: what is in the log has been through these rules once.

Invariant  At most the last five batches are kept, all of the producer's current epoch.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.storage.producer_snapshot import ProducerSnapshotEntry
from tidelog.storage.transaction_verification import Verification

BATCHES_KEPT: Final = 5
NONE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1
EPOCH_MAX: Final = 2**15 - 1


class Origin(IntEnum):
    """Who asks for an append, and so how much of it is still to be checked.

    CLIENT is checked in full, COORDINATOR by epoch only, REPLICA and RAFT are taken as they are.

    What a replica fetches, or reads back from its own disk, was checked by the leader that first
    accepted it.
    """

    CLIENT = 0
    COORDINATOR = 1
    REPLICA = 2
    RAFT = 3


class Duplicate(NamedTuple):
    """The batch is in the log already, here."""

    first_offset: int
    last_offset: int
    timestamp: int


class KeptBatch(NamedTuple):
    """What tells a repeat from a new batch, and answers it."""

    first_sequence: int
    last_sequence: int
    first_offset: int
    last_offset: int
    timestamp: int


class ProducerStateEntry:
    """What is remembered of one producer; changed only by what is in the log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = NONE
        self.last_timestamp = NONE
        self.transaction_start = NONE
        self.batches: list[KeptBatch] = []

    @classmethod
    def from_entry(cls, entry: ProducerSnapshotEntry) -> ProducerStateEntry:
        """A producer as a snapshot remembers it: with its last batch only."""
        producer = cls(entry.epoch)
        producer.coordinator_epoch = entry.coordinator_epoch
        producer.last_timestamp = entry.timestamp
        producer.transaction_start = entry.current_txn_first_offset
        if entry.last_offset >= 0:
            first_sequence = entry.last_sequence - entry.offset_delta
            if entry.last_sequence >= 0:
                first_sequence &= SEQUENCE_MAX
            producer.batches.append(
                KeptBatch(
                    first_sequence,
                    entry.last_sequence,
                    entry.last_offset - entry.offset_delta,
                    entry.last_offset,
                    entry.timestamp,
                )
            )
        return producer

    def to_entry(self, producer_id: int) -> ProducerSnapshotEntry:
        last = self.batches[-1] if self.batches else None
        return ProducerSnapshotEntry(
            producer_id,
            self.epoch,
            NONE if last is None else last.last_sequence,
            NONE if last is None else last.last_offset,
            0 if last is None else last.last_offset - last.first_offset,
            self.last_timestamp,
            self.coordinator_epoch,
            self.transaction_start,
        )

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NONE

    def in_transaction(self, epoch: int) -> bool:
        """Whether a transaction of this epoch is under way here."""
        return self.transaction_start != NONE and self.epoch == epoch

    def duplicate_of(self, header: BatchHeader) -> Duplicate | None:
        """Where a batch of this epoch with the very same sequences is, if it is still known."""
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.first_sequence == first and batch.last_sequence == last:
                return Duplicate(batch.first_offset, batch.last_offset, batch.timestamp)
        return None

    def follows(self, first_sequence: int) -> bool:
        """Whether a batch of this epoch may begin with this sequence."""
        last = self.last_sequence
        return first_sequence == last + 1 or (first_sequence == 0 and last == SEQUENCE_MAX)

    def add(self, header: BatchHeader, first_offset: int, last_offset: int) -> bool:
        """Take note of a batch of records; whether it begins a transaction."""
        batches = self.batches
        if header.producer_epoch != self.epoch:
            self.epoch = header.producer_epoch
            batches.clear()
        elif len(batches) == BATCHES_KEPT:
            del batches[0]
        timestamp = self.last_timestamp = header.max_timestamp
        batches.append(
            KeptBatch(
                header.base_sequence, header.last_sequence, first_offset, last_offset, timestamp
            )
        )
        if self.transaction_start == NONE and header.attributes & TRANSACTIONAL:
            self.transaction_start = first_offset
            return True
        return False

    def end_transaction(self, epoch: int, marker: TransactionMarker, timestamp: int) -> None:
        """Take note of a marker. Sequences go on, unless it brings a new epoch."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()
        self.coordinator_epoch = marker.coordinator_epoch
        self.last_timestamp = timestamp
        self.transaction_start = NONE


def check_batch(
    header: BatchHeader,
    producer: ProducerStateEntry | None,
    asked: Verification | None,
    *,
    confirmed: bool,
    client: bool,
) -> Duplicate | Refusal | None:
    """Whether a batch of records may be appended: None if so.

    `confirmed` says that its transaction, if it has one, need not be under way here already.
    Coordinators do not number their batches, so sequences matter for clients alone.
    """
    if producer is not None and client and header.producer_epoch == producer.epoch:
        duplicate = producer.duplicate_of(header)
        if duplicate is not None:
            return duplicate
    if producer is not None and header.producer_epoch < producer.epoch:
        return stale_epoch(header.producer_id, header.producer_epoch, producer)
    if not confirmed and (producer is None or not producer.in_transaction(header.producer_epoch)):
        return Refusal(
            ErrorCode.invalid_txn_state,
            f"producer {header.producer_id} has no confirmed transaction here",
        )
    if client:
        refusal = _check_sequence(header, producer, asked)
        if refusal is not None:
            return refusal
    if producer is None or producer.transaction_start == NONE or header.attributes & TRANSACTIONAL:
        return None
    return Refusal(
        ErrorCode.invalid_txn_state,
        f"producer {header.producer_id} has a transaction open and writes outside of it",
    )


def check_marker(
    header: BatchHeader,
    marker: TransactionMarker,
    producer: ProducerStateEntry,
    transaction_version: int,
) -> Refusal | None:
    """Whether a batch that ends a transaction may be appended: None if so.

    From transaction version 2 on, the marker carries the epoch after that of the records; the
    same epoch is then a repeat of a marker, unless there is no higher epoch to take.
    """
    epoch = header.producer_epoch
    stale = epoch < producer.epoch
    if transaction_version >= 2 and epoch == producer.epoch:
        stale = producer.transaction_start != NONE and epoch != EPOCH_MAX
    if stale:
        return stale_epoch(header.producer_id, epoch, producer)
    if marker.coordinator_epoch < producer.coordinator_epoch:
        return Refusal(
            ErrorCode.transaction_coordinator_fenced,
            f"coordinator epoch {marker.coordinator_epoch} for producer {header.producer_id} "
            f"is older than {producer.coordinator_epoch}",
        )
    return None


def _check_sequence(
    header: BatchHeader, producer: ProducerStateEntry | None, asked: Verification | None
) -> Refusal | None:
    """Whether a client's batch goes on where the last one of this producer ended.

    A producer that is not known, or no more, may begin anywhere: its earlier batches may have
    been deleted. Not so while its transaction is being confirmed: then the first one is known.
    """
    first = header.base_sequence
    if asked is not None:
        starts_over = asked.epoch_per_transaction and (producer is None or not producer.batches)
        if first > (0 if starts_over else asked.lowest_sequence):
            return _out_of_order(header, "before the one its transaction begins with")
    if producer is None:
        return None
    if header.producer_epoch != producer.epoch:
        return None if first == 0 else _out_of_order(header, "first in a new epoch")
    if producer.follows(first):
        return None
    return _out_of_order(header, f"after {producer.last_sequence}")


def _out_of_order(header: BatchHeader, where: str) -> Refusal:
    return Refusal(
        ErrorCode.out_of_order_sequence_number,
        f"producer {header.producer_id} sends sequence {header.base_sequence} {where}",
    )


def stale_epoch(producer_id: int, epoch: int, producer: ProducerStateEntry) -> Refusal:
    """Why nothing of an epoch that is over is taken."""
    return Refusal(
        ErrorCode.invalid_producer_epoch,
        f"epoch {epoch} of producer {producer_id} is over, it is in epoch {producer.epoch}",
    )
