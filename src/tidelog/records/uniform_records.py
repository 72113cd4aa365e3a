"""Checking many records at once that have the same shape as the one before them.

Records of equal size whose length fields hold the same bytes differ only in timestamp, offset,
key and value. Every byte of their structure then lies in a column: one byte per record, a fixed
number of bytes apart. Slicing out a column and comparing it costs about a nanosecond per record,
so a batch of equal-sized records is checked some twenty times faster than one by one.

Invariant  A yes is exact: each of the records is well-formed and has the expected offset delta.
           A no says nothing; the records must then be read in another way.
"""

from __future__ import annotations

from typing import Final

from tidelog.records.fields import RecordFields
from tidelog.records.varint import read_varlong

ZONE: Final = 8192  # within one, at most the lower two bytes of an offset delta change
ONE_BYTE_ZONE: Final = 64  # deltas below this take one byte
THREE_BYTE_ZONES: Final = 1 << 20  # deltas below this take three bytes at most

# The bytes of offset deltas: the only one of one; the first of several; the second and last; the
# second of three.

_ONE: Final = bytes(range(0, 128, 2))
LOW: Final = bytes(range(128, 256, 2)) * 128
HIGH: Final = b"".join(bytes((group,)) * 64 for group in range(128))
MIDDLE: Final = b"".join(bytes((group,)) * 64 for group in range(128, 256))
_CONTINUED: Final = bytes(range(128, 256))


def zone_end(index: int) -> int:
    """The first index after `index` whose offset delta may have another width or upper byte."""
    return ONE_BYTE_ZONE if index < ONE_BYTE_ZONE else (index // ZONE + 1) * ZONE


def timestamps_if_uniform(
    data: bytes, like: RecordFields, index: int, count: int
) -> tuple[int, int] | None:
    """Least and greatest timestamp delta of the `count` records after `like`, if uniform.

    The first of them has the offset delta `index`; all lie in the zone of `like`.
    """
    size = like.end - like.start
    if like.header_count or like.end + count * size > len(data):
        return None
    stop = (count - 1) * size + 1
    for at in (
        *range(like.start, like.body_at),
        *range(like.key_length_at, like.key_at),
        *range(like.value_length_at, like.value_at),
        like.headers_at - 1,
    ):
        first = at + size
        if data[first : first + stop : size] != data[at : at + 1] * count:
            return None
    expected = _offset_columns(like.key_length_at - like.offset_at, index, count)
    for at, column in enumerate(expected, like.offset_at + size):
        if data[at : at + stop : size] != column:
            return None
    if not expected:
        return None
    columns = [
        data[at : at + stop : size] for at in range(like.body_at + 1 + size, like.offset_at + size)
    ]
    return _timestamp_range(columns)


def _offset_columns(width: int, index: int, count: int) -> tuple[bytes, ...]:
    if width == 1:
        return (_ONE[index : index + count],)
    start = index % ZONE
    end = start + count
    if width == 2:
        return LOW[start:end], HIGH[start:end]
    if width == 3 and index < THREE_BYTE_ZONES:
        return LOW[start:end], MIDDLE[start:end], bytes((index // ZONE,)) * count
    return ()


def _timestamp_range(columns: list[bytes]) -> tuple[int, int] | None:
    *lower, last = columns
    if not last.isascii():
        return None
    for column in lower:
        if column.translate(None, _CONTINUED):
            return None
    if all(column.count(column[0]) == len(column) for column in columns):
        delta, _ = read_varlong(bytes(column[0] for column in columns), 0)
        return delta, delta
    if lower:
        deltas = [read_varlong(bytes(group), 0)[0] for group in set(zip(*columns, strict=True))]
    else:
        deltas = [(byte >> 1) ^ -(byte & 1) for byte in set(last)]
    return min(deltas), max(deltas)
