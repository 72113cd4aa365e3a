"""The rules by which a leader takes or refuses what a producer sends it.

Followers and recovery do not ask: what is in the log has been through these rules once.
"""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.storage.producer import NONE, Duplicate, Producer
from tidelog.storage.transaction_verification import Verification

EPOCH_MAX: Final = 2**15 - 1


def check_batch(
    header: BatchHeader,
    producer: Producer | None,
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
    header: BatchHeader, marker: TransactionMarker, producer: Producer, transaction_version: int
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
    header: BatchHeader, producer: Producer | None, asked: Verification | None
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


def stale_epoch(producer_id: int, epoch: int, producer: Producer) -> Refusal:
    """Why nothing of an epoch that is over is taken."""
    return Refusal(
        ErrorCode.invalid_producer_epoch,
        f"epoch {epoch} of producer {producer_id} is over, it is in epoch {producer.epoch}",
    )
