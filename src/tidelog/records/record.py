"""Records read back out of a batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header
from tidelog.records.compression import decompress
from tidelog.records.fields import read_fields, read_headers

INFLATE_LIMIT: Final = 1 << 28
"""Room for the inflated records of one batch; an uncompressed one may be as large as it is."""


class Record(NamedTuple):
    """One record with its place in the log and its time in milliseconds."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def records_of(
    batch: bytes | bytearray | memoryview, *, inflate_limit: int = INFLATE_LIMIT
) -> Iterator[Record]:
    """The records of one whole batch, inflated; CorruptBatch on anything malformed.

    Offsets may have gaps after compaction, but they rise and stay within the batch.
    """
    header = read_header(batch)
    if len(batch) != header.size:
        raise CorruptBatch(f"{len(batch)} bytes are not one batch of {header.size}")
    if header.record_count < 0:
        raise CorruptBatch(f"a batch of {header.record_count} records")
    if header.record_count == 0:
        return iter(())
    limit = max(inflate_limit, len(batch))
    data = decompress(header.codec, memoryview(batch)[HEADER_SIZE:], limit)
    return _read(data, header)


def _read(data: bytes, header: BatchHeader) -> Iterator[Record]:
    appended_at = header.max_timestamp if header.is_log_append_time else None
    position = 0
    last_delta = -1
    for _ in range(header.record_count):
        fields = read_fields(data, position)
        if not last_delta < fields.offset_delta <= header.last_offset_delta:
            raise CorruptBatch(f"offset delta {fields.offset_delta} does not lie in its batch")
        last_delta = fields.offset_delta
        key_at, value_at = fields.key_at, fields.value_at
        timestamp = header.base_timestamp + fields.timestamp_delta
        yield Record(
            header.base_offset + last_delta,
            timestamp if appended_at is None else appended_at,
            None if fields.key_length < 0 else data[key_at : key_at + fields.key_length],
            None if fields.value_length < 0 else data[value_at : value_at + fields.value_length],
            read_headers(data, fields) if fields.header_count else (),
        )
        position = fields.end
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes after the last record")
