"""Batches made here: by our own client, by coordinators, and control batches.

Invariant  What is built passes the validation of produced batches, control batches excepted.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from struct import Struct
from typing import Final, NamedTuple

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
from tidelog.records.compression import Codec, compress
from tidelog.records.varint import append_varint

_CONTROL_KEY: Final = Struct(">hh")
_CONTROL_VERSION: Final = 0
_END_TXN_VALUE: Final = Struct(">hi")
_END_TXN_VERSION: Final = 0


class NewRecord(NamedTuple):
    """A record before it has an offset; the timestamp is in milliseconds."""

    key: bytes | None
    value: bytes | None
    timestamp: int
    headers: tuple[tuple[str, bytes | None], ...] = ()


class ControlKind(IntEnum):
    """What a control record tells; the value is the type in its key."""

    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


_CONTROL_KINDS: Final = {int(kind): kind for kind in ControlKind}


def build_batch(
    records: Iterable[NewRecord],
    *,
    base_offset: int = 0,
    leader_epoch: int = -1,
    codec: Codec = Codec.NONE,
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
    batch += data if codec is Codec.NONE else compress(codec, data, level)
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


def control_record(kind: ControlKind, value: bytes, timestamp: int) -> NewRecord:
    """The one record of a control batch; how `value` is laid out depends on the kind."""
    return NewRecord(_CONTROL_KEY.pack(_CONTROL_VERSION, kind), value, timestamp)


def control_kind(key: bytes | None) -> ControlKind | None:
    """What a control record's key says; None for a kind or version we do not know."""
    if key is None or len(key) < _CONTROL_KEY.size:
        return None
    version, kind = _CONTROL_KEY.unpack_from(key)
    return _CONTROL_KINDS.get(kind) if version >= _CONTROL_VERSION else None


def end_txn_marker(
    *,
    producer_id: int,
    producer_epoch: int,
    committed: bool,
    coordinator_epoch: int,
    timestamp: int,
    base_offset: int = 0,
    leader_epoch: int = -1,
) -> bytearray:
    """The control batch that ends a producer's transaction on one partition."""
    kind = ControlKind.COMMIT if committed else ControlKind.ABORT
    value = _END_TXN_VALUE.pack(_END_TXN_VERSION, coordinator_epoch)
    return build_batch(
        [control_record(kind, value, timestamp)],
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def coordinator_epoch_of(value: bytes | None) -> int | None:
    """The coordinator epoch in the value of an end-of-transaction marker; None if there is none."""
    if value is None or len(value) < _END_TXN_VALUE.size:
        return None
    _, epoch = _END_TXN_VALUE.unpack_from(value)
    return int(epoch)
