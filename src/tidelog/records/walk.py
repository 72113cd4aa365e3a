"""The walk over all records of a produced batch, which every one of them pays for.

Three ways, each exact, tried from fast to slow: whole spans of records shaped like the one before
(`uniform_records`), a loop for records whose lengths take one or two bytes, and `read_fields` for
the rest.

Invariant  A walk that returns has seen exactly `count` records with offset deltas 0 to count - 1
           that fill the data to its last byte; anything else is CorruptBatch.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from tidelog.records.corrupt import CorruptBatch
from tidelog.records.fields import RecordFields, read_fields, skip_headers
from tidelog.records.uniform_records import (
    HIGH,
    LOW,
    MIDDLE,
    ONE_BYTE_ZONE,
    THREE_BYTE_ZONES,
    ZONE,
    timestamps_if_uniform,
    zone_end,
)
from tidelog.records.varint import VARLONG_BYTES, read_varlong

SMALLEST_RECORD: Final = 7

_SPAN: Final = 64
_FEWEST_UNIFORM: Final = 8
_IMPOSSIBLE: Final = 1 << 40
_IMPOSSIBLE_DELTA: Final = 1 << 64
_NULL: Final = 1


def _reaches() -> list[int]:
    """How far a thing reaches from its length field, by the two bytes at the field's place.

    The bytes are read as one little-endian number. Lengths of more than two bytes, and negative
    ones other than null, are impossible.
    """
    one_byte = [_IMPOSSIBLE] * 128
    one_byte[0::2] = range(1, 65)
    one_byte[_NULL] = 1
    reaches = []
    for high in range(128):
        two_bytes = [_IMPOSSIBLE] * 128
        two_bytes[0::2] = range(2 + (high << 6), 2 + (high + 1 << 6))
        reaches += one_byte + two_bytes
    return reaches + (one_byte + [_IMPOSSIBLE] * 128) * 128


_REACH: Final = _reaches()
_KEY_REACH: Final = _REACH[-256:]  # as for a second byte that cannot belong to a length
_OFFSETS: Final = [low | high << 8 for low, high in zip(LOW, HIGH, strict=True)]
_PAIR: Final = Struct("<H")


class _Head(NamedTuple):
    """A record up to its key length, for one width of the timestamp and of the offset delta."""

    long: Struct  # with a length of two bytes
    short: Struct  # with a length of one byte

    @classmethod
    def of(cls, timestamp_bytes: int, offset_code: str) -> _Head:
        rest = f"x{timestamp_bytes}s{offset_code}B"
        return cls(Struct("<H" + rest), Struct("<B" + rest))


_HEADS: Final = {
    (width, code): _Head.of(width, code)
    for width in range(1, VARLONG_BYTES + 1)
    for code in ("B", "H", "3s")
}


class Walked(NamedTuple):
    """What the walk learned; deltas are relative to the batch's base timestamp."""

    least_timestamp_delta: int
    greatest_timestamp_delta: int
    has_keyless: bool


def walk(data: bytes, count: int) -> Walked:
    """Read over all records of a batch; CorruptBatch unless they are exactly `count`."""
    if count <= 0 or count * SMALLEST_RECORD > len(data):
        raise CorruptBatch(f"{len(data)} bytes cannot hold {count} records")
    walker = _Walker(data)
    if count == 1:  # the most common batch of all, where producers do not linger
        walker.one()
        return walker.finished()
    span = _SPAN
    while walker.index < count:
        like = walker.one()
        stop = min(count, walker.index + span, zone_end(walker.index - 1))
        if walker.uniform(like, stop):
            span *= 2
        else:
            span = _SPAN
            while walker.index < stop:
                walker.varied(like.offset_at - like.body_at - 1, stop)
                if walker.index < stop:
                    like = walker.one()
    return walker.finished()


class _Walker:
    __slots__ = ("data", "greatest", "has_keyless", "index", "least", "position")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.position = 0
        self.index = 0
        self.least = _IMPOSSIBLE_DELTA
        self.greatest = -_IMPOSSIBLE_DELTA
        self.has_keyless = False

    def finished(self) -> Walked:
        if self.position != len(self.data):
            raise CorruptBatch(f"{len(self.data) - self.position} bytes after the last record")
        return Walked(self.least, self.greatest, self.has_keyless)

    def one(self) -> RecordFields:
        """Read one record of any shape."""
        fields = read_fields(self.data, self.position)
        if fields.offset_delta != self.index:
            raise CorruptBatch(f"record {self.index} has offset delta {fields.offset_delta}")
        self._saw(fields.timestamp_delta, fields.timestamp_delta)
        if fields.key_length < 0:
            self.has_keyless = True
        self.index += 1
        self.position = fields.end
        return fields

    def uniform(self, like: RecordFields, stop: int) -> bool:
        """Go on to record `stop` if all records up to there look like the one just read."""
        count = stop - self.index
        if count < _FEWEST_UNIFORM:
            return False
        deltas = timestamps_if_uniform(self.data, like, self.index, count)
        if deltas is None:
            return False
        self._saw(*deltas)
        self.index = stop
        self.position = like.end + count * (like.end - like.start)
        return True

    def varied(self, timestamp_bytes: int, stop: int) -> None:
        """Go on to record `stop`, or to the first one that is out of the ordinary.

        A record that passes has a length, key length, value length and header count of the widths
        assumed here, each checked, so nothing was read from a wrong place.
        """
        data, position, index = self.data, self.position, self.index
        size = len(data)
        code, offsets = _expected_offsets(index, stop)
        long, short = _HEADS[timestamp_bytes, code]
        unpack_long, long_size = long.unpack_from, long.size - 1
        unpack_short, short_size = short.unpack_from, short.size - 1
        unpack_pair = _PAIR.unpack_from
        seen = b""
        try:
            for expected in offsets:
                length, stamp, offset, key = unpack_long(data, position)
                if length & 0x80:
                    value_at = position + long_size + _KEY_REACH[key]
                else:
                    length, stamp, offset, key = unpack_short(data, position)
                    value_at = position + short_size + _KEY_REACH[key]
                end = position + _REACH[length]
                (value,) = unpack_pair(data, value_at)
                count_at = value_at + _REACH[value]
                if offset != expected or end > size:
                    break
                if stamp != seen:
                    if not self._saw_stamp(stamp):
                        break
                    seen = stamp
                if (count_at + 1 != end or data[count_at]) and not _headers_fill(
                    data, count_at, end
                ):
                    break
                if key == _NULL:
                    self.has_keyless = True
                position = end
                index += 1
        except (IndexError, struct.error):
            pass  # a short tail or an impossible reach: read with care, one by one
        self.position, self.index = position, index

    def _saw(self, least: int, greatest: int) -> None:
        if least < self.least:
            self.least = least
        if greatest > self.greatest:
            self.greatest = greatest

    def _saw_stamp(self, stamp: bytes) -> bool:
        if stamp[-1] > 0x7F:
            return False
        delta, used = read_varlong(stamp, 0)
        if used != len(stamp):
            return False
        self._saw(delta, delta)
        return True


def _expected_offsets(index: int, stop: int) -> tuple[str, Sequence[int | bytes]]:
    """The bytes that offset deltas must have, as struct code and values of one zone."""
    if index < ONE_BYTE_ZONE:
        return "B", range(2 * index, 2 * stop, 2)
    if index < ZONE:
        return "H", _OFFSETS[index:stop]
    if index >= THREE_BYTE_ZONES:
        return "H", ()
    top = index // ZONE
    return "3s", [bytes((LOW[i % ZONE], MIDDLE[i % ZONE], top)) for i in range(index, stop)]


def _headers_fill(data: bytes, count_at: int, end: int) -> bool:
    count = data[count_at]
    if count & 0x81:
        return False
    return skip_headers(data, count_at + 1, count >> 1, end) == end
