"""Batches made here: by our own client, by coordinators, by the quorum.

Invariant  What is built passes the validation of produced batches, control batches excepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.model.errors import invariant
from tidelog.records.batch import (
    CONTROL,
    HEADER_SIZE,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    NO_TIMESTAMP,
    TRANSACTIONAL,
    BatchHeader,
    write_header,
)
from tidelog.records.compression import CompressionType, compress
from tidelog.records.varint import append_varint


class NewRecord(NamedTuple):
    """A record before it has an offset; the timestamp is in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: CompressionType = CompressionType.NONE,
    level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    log_append_time_ms: int | None = None,
) -> bytearray:
    """One whole batch of the records, in order, with consecutive offsets."""
    data, count, base_timestamp, max_timestamp = _serialise(records)
    attributes = int(codec)
    if transactional:
        attributes |= TRANSACTIONAL
    if control:
        attributes |= CONTROL
    if log_append_time_ms is not None:
        attributes |= LOG_APPEND_TIME
        max_timestamp = log_append_time_ms
    batch = bytearray(HEADER_SIZE)
    batch += data if codec is CompressionType.NONE else compress(codec, data, level)
    write_header(
        batch,
        BatchHeader(
            base_offset=base_offset,
            batch_length=0,
            leader_epoch=leader_epoch,
            magic=MAGIC,
            crc=0,
            attributes=attributes,
            last_offset_delta=count - 1,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            record_count=count,
        ),
    )
    return batch


def _serialise(records: Iterable[NewRecord]) -> tuple[bytearray, int, int, int]:
    """The records end to end, their number, the first timestamp and the greatest one."""
    data = bytearray()
    count = 0
    base_timestamp = max_timestamp = NO_TIMESTAMP
    for record in records:
        if count == 0:
            base_timestamp = record.timestamp
        max_timestamp = max(max_timestamp, record.timestamp)
        _append_record(data, record, record.timestamp - base_timestamp, count)
        count += 1
    invariant(count > 0, "a batch is built of at least one record")
    return data, count, base_timestamp, max_timestamp


def _append_record(
    data: bytearray, record: NewRecord, timestamp_delta: int, offset_delta: int
) -> None:
    body = bytearray(1)
    append_varint(body, timestamp_delta)
    append_varint(body, offset_delta)
    _append_nullable(body, record.key)
    _append_nullable(body, record.value)
    append_varint(body, len(record.headers))
    for key, value in record.headers:
        _append_nullable(body, key.encode())
        _append_nullable(body, value)
    append_varint(data, len(body))
    data += body


def _append_nullable(target: bytearray, value: bytes | None) -> None:
    if value is None:
        append_varint(target, -1)
        return
    append_varint(target, len(value))
    target += value
