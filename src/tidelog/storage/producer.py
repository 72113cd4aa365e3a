"""One producer as one log knows it: its epoch, its last batches and its open transaction.

Invariant  At most the last five batches are kept, all of the producer's current epoch.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.storage.producer_snapshot import ProducerEntry

BATCHES_KEPT: Final = 5
NONE: Final = -1
SEQUENCE_MAX: Final = 2**31 - 1


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


class Producer:
    """Changed only by what is in the log."""

    __slots__ = ("batches", "coordinator_epoch", "epoch", "last_timestamp", "transaction_start")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.coordinator_epoch = NONE
        self.last_timestamp = NONE
        self.transaction_start = NONE
        self.batches: list[KeptBatch] = []

    @classmethod
    def from_entry(cls, entry: ProducerEntry) -> Producer:
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

    def to_entry(self, producer_id: int) -> ProducerEntry:
        last = self.batches[-1] if self.batches else None
        return ProducerEntry(
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
