"""Where the fields of one record lie in the inflated records of a batch.

    length, attributes i8, timestamp delta, offset delta, key length, key, value length, value,
    header count, then per header: key length, key, value length, value

All lengths, counts and deltas are variable-length. A length of -1 is null, allowed for the key,
the value and a header's value. The attributes of a record mean nothing yet and may be anything.

Invariant  Fields that are returned lie inside the data, in this order, and end where the
           record's own length says.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.records.corrupt import CorruptBatch
from tidelog.records.varint import read_varint, read_varlong


class RecordFields(NamedTuple):
    """Positions of the fields of one record, and the numbers needed to walk on."""

    start: int
    body_at: int
    offset_at: int
    key_length_at: int
    key_at: int
    value_length_at: int
    value_at: int
    headers_at: int
    end: int
    timestamp_delta: int
    offset_delta: int
    key_length: int
    value_length: int
    header_count: int


def read_fields(data: bytes, start: int) -> RecordFields:
    """The record that begins at `start`; CorruptBatch if there is none."""
    try:
        length, body_at = read_varint(data, start)
        end = body_at + length
        byte = data[body_at + 1]
        if byte < 0x80:
            timestamp_delta = (byte >> 1) ^ -(byte & 1)
            offset_at = body_at + 2
        else:
            timestamp_delta, offset_at = read_varlong(data, body_at + 1)
        offset_delta, key_length_at = read_varint(data, offset_at)
        key_length, key_at = read_varint(data, key_length_at)
        value_length_at = key_at + key_length if key_length > 0 else key_at
        value_length, value_at = read_varint(data, value_length_at)
        count_at = value_at + value_length if value_length > 0 else value_at
        header_count = data[count_at]
        headers_at = count_at + 1
        if header_count:
            header_count, headers_at = read_varint(data, count_at)
            headers_end = skip_headers(data, headers_at, header_count, end)
        else:
            headers_end = headers_at
    except IndexError as problem:
        raise CorruptBatch(f"the record at byte {start} goes beyond the end") from problem
    if headers_end != end or key_length < -1 or value_length < -1 or end > len(data):
        raise CorruptBatch(f"the record at byte {start} does not fill its length {length}")
    return RecordFields(
        start,
        body_at,
        offset_at,
        key_length_at,
        key_at,
        value_length_at,
        value_at,
        headers_at,
        end,
        timestamp_delta,
        offset_delta,
        key_length,
        value_length,
        header_count,
    )


def skip_headers(data: bytes, position: int, count: int, end: int) -> int:
    """The position after `count` headers; CorruptBatch or IndexError if they are not there."""
    if count < 0 or count * 2 > end - position:  # each takes two bytes at least
        raise CorruptBatch(f"{count} headers do not fit into their record")
    for _ in range(count):
        key_length, position = read_varint(data, position)
        if key_length < 0:
            raise CorruptBatch("a header has no key")
        value_length, position = read_varint(data, position + key_length)
        if value_length > 0:
            position += value_length
        elif value_length < -1:
            raise CorruptBatch(f"a header's value has length {value_length}")
    return position


def read_headers(data: bytes, fields: RecordFields) -> tuple[tuple[str, bytes | None], ...]:
    """The headers of a record whose fields were read. A key that is not UTF-8 stays readable."""
    headers = []
    position = fields.headers_at
    for _ in range(fields.header_count):
        key_length, key_at = read_varint(data, position)
        value_length, value_at = read_varint(data, key_at + key_length)
        position = value_at + max(value_length, 0)
        key = data[key_at : key_at + key_length].decode("utf-8", "replace")
        headers.append((key, None if value_length < 0 else data[value_at:position]))
    return tuple(headers)
