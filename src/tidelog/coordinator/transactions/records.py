"""The records of `__transaction_state`: a transactional id, and all that is known of it.

Invariant  Names, fields and versions are Kafka's, so that its tools read the topic, and a log
           written by one of its brokers can be loaded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from tidelog.coordinator.result import ProducerIdAndEpoch
from tidelog.coordinator.transactions.transaction import (
    NO_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionState,
)
from tidelog.coordinator.versioned import join_number, split_number
from tidelog.model.ids import TopicPartition
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.primitives import MalformedRequest
from tidelog.protocol.stored.transactions import (
    PartitionsSchema,
    TransactionLogKey,
    TransactionLogValue,
)

KEY_TYPE: Final = 0


class TransactionRecord(NamedTuple):
    """One change; without a transaction, the end of what is known of the id."""

    transactional_id: str
    transaction: Transaction | None


def encode_record(
    record: TransactionRecord, transaction_version: int
) -> tuple[bytes, bytes | None]:
    """Key and value as they are stored in a cluster of that transaction version."""
    key = TransactionLogKey(transactional_id=record.transactional_id)
    stored_key = join_number(KEY_TYPE, encode(key, 0))
    transaction = record.transaction
    if transaction is None:
        return stored_key, None
    version = 1 if transaction_version >= 1 else 0
    value = _value_of(transaction) if version else _old_value_of(transaction)
    return stored_key, join_number(version, encode(value, version))


def decode_record(key: bytes, value: bytes | None) -> TransactionRecord | None:
    """What was stored; None for a type of key that nobody knows."""
    key_type, key_body = split_number(key)
    if key_type != KEY_TYPE:
        return None
    transactional_id = decode(TransactionLogKey, 0, key_body).transactional_id
    if value is None:
        return TransactionRecord(transactional_id, None)
    version, value_body = split_number(value)
    stored = decode(TransactionLogValue, version, value_body)
    return TransactionRecord(transactional_id, _transaction_of(transactional_id, stored))


def by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    """Partition numbers under their topics, both in order."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        grouped.setdefault(topic, []).append(partition)
    return grouped


def _value_of(transaction: Transaction) -> TransactionLogValue:
    following = transaction.next_producer
    has_partitions = transaction.state not in (TransactionState.EMPTY, TransactionState.DEAD)
    return TransactionLogValue(
        producer_id=transaction.producer.producer_id,
        previous_producer_id=transaction.previous_producer_id,
        next_producer_id=NO_PRODUCER_ID if following is None else following.producer_id,
        producer_epoch=transaction.producer.producer_epoch,
        next_producer_epoch=NO_EPOCH if following is None else following.producer_epoch,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_status=int(transaction.state),
        transaction_partitions=(
            tuple(
                PartitionsSchema(topic=topic, partition_ids=tuple(numbers))
                for topic, numbers in by_topic(transaction.partitions).items()
            )
            if has_partitions
            else None
        ),
        transaction_last_update_timestamp_ms=transaction.updated_ms,
        transaction_start_timestamp_ms=transaction.started_ms,
        client_transaction_version=transaction.client_version,
    )


def _old_value_of(transaction: Transaction) -> TransactionLogValue:
    """Without what the first version cannot say."""
    value = _value_of(transaction)
    return TransactionLogValue(
        producer_id=value.producer_id,
        producer_epoch=value.producer_epoch,
        transaction_timeout_ms=value.transaction_timeout_ms,
        transaction_status=value.transaction_status,
        transaction_partitions=value.transaction_partitions,
        transaction_last_update_timestamp_ms=value.transaction_last_update_timestamp_ms,
        transaction_start_timestamp_ms=value.transaction_start_timestamp_ms,
    )


def _transaction_of(transactional_id: str, value: TransactionLogValue) -> Transaction:
    try:
        state = TransactionState(value.transaction_status)
    except ValueError as error:
        raise MalformedRequest(f"transaction status {value.transaction_status}") from error
    following = None
    if value.next_producer_id != NO_PRODUCER_ID:
        following = ProducerIdAndEpoch(value.next_producer_id, max(0, value.next_producer_epoch))
    return Transaction(
        transactional_id=transactional_id,
        producer=ProducerIdAndEpoch(value.producer_id, value.producer_epoch),
        previous_producer_id=value.previous_producer_id,
        next_producer=following,
        timeout_ms=value.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in value.transaction_partitions or ()
            for partition in topic.partition_ids
        ),
        started_ms=value.transaction_start_timestamp_ms,
        updated_ms=value.transaction_last_update_timestamp_ms,
        client_version=value.client_transaction_version,
    )
