"""Batches that go on with fewer records than they were written with, as compaction leaves them.

Invariant  Offsets, sequences, epochs and the place a batch takes in the log stay as they are; the
           records that are kept keep their timestamps.
Invariant  A delete horizon takes the place of the base timestamp, and the records count from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tidelog.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    HEADER_SIZE,
    NO_TIMESTAMP,
    BatchHeader,
    CorruptBatch,
    write_header,
)
from tidelog.records.compression import CompressionType, compress, decompress
from tidelog.records.fields import RecordFields, read_fields
from tidelog.records.record import INFLATE_LIMIT
from tidelog.records.varint import append_varint


class OpenedBatch(NamedTuple):
    """A batch with its records inflated and taken apart."""

    header: BatchHeader
    data: bytes
    fields: list[RecordFields]

    def key(self, record: RecordFields) -> bytes | None:
        if record.key_length < 0:
            return None
        return self.data[record.key_at : record.key_at + record.key_length]


def open_batch(header: BatchHeader, batch: memoryview) -> OpenedBatch:
    """Take a batch apart; CorruptBatch if its records do not fill it."""
    limit = max(INFLATE_LIMIT, len(batch))
    data = decompress(header.codec, batch[HEADER_SIZE:], limit) if header.record_count else b""
    fields: list[RecordFields] = []
    position = 0
    for _ in range(header.record_count):
        record = read_fields(data, position)
        fields.append(record)
        position = record.end
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes after the last record")
    return OpenedBatch(header, data, fields)


def with_records(
    batch: OpenedBatch, kept: Sequence[RecordFields], delete_horizon_ms: int | None
) -> bytearray:
    """The batch with some of its records, of which there must be one, and a delete horizon."""
    header, data = batch.header, batch.data
    attributes = header.attributes & ~DELETE_HORIZON
    base_timestamp = header.base_timestamp
    if delete_horizon_ms is not None:
        attributes |= DELETE_HORIZON
        base_timestamp = delete_horizon_ms
    shift = header.base_timestamp - base_timestamp
    if shift:
        records = bytearray()
        for record in kept:
            _append_shifted(records, data, record, shift)
    else:
        records = bytearray().join(data[record.start : record.end] for record in kept)
    max_timestamp = header.max_timestamp
    if not header.is_log_append_time:
        max_timestamp = header.base_timestamp + max(record.timestamp_delta for record in kept)
    codec = header.codec
    rewritten = bytearray(HEADER_SIZE)
    rewritten += records if codec is CompressionType.NONE else compress(codec, bytes(records))
    write_header(
        rewritten,
        header._replace(
            attributes=attributes,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            record_count=len(kept),
        ),
    )
    return rewritten


def without_records(header: BatchHeader) -> bytearray:
    """What stays of a batch that keeps its place in the log, and its producer's, but no record."""
    emptied = bytearray(HEADER_SIZE)
    write_header(
        emptied,
        header._replace(
            attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
            base_timestamp=NO_TIMESTAMP,
            record_count=0,
        ),
    )
    return emptied


def _append_shifted(
    target: bytearray, data: bytes, record: RecordFields, timestamp_shift: int
) -> None:
    body = bytearray(data[record.body_at : record.body_at + 1])
    append_varint(body, record.timestamp_delta + timestamp_shift)
    body += data[record.offset_at : record.end]
    append_varint(target, len(body))
    target += body
