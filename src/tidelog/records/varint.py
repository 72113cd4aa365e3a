"""Variable-length integers of records: seven bits per byte, lowest first, zigzag for the sign."""

from __future__ import annotations

from typing import Final

from tidelog.records.corrupt import CorruptBatch

VARINT_BYTES: Final = 5
VARLONG_BYTES: Final = 10
_VARINT_BITS: Final = 32
_VARLONG_BITS: Final = 64


def read_varint(data: bytes, position: int) -> tuple[int, int]:
    """A signed 32-bit number and the position after it; IndexError where the data ends."""
    low = data[position]
    if low < 0x80:
        return (low >> 1) ^ -(low & 1), position + 1
    high = data[position + 1]
    if high < 0x80:
        zigzag = (high << 7) + low - 0x80
        return (zigzag >> 1) ^ -(zigzag & 1), position + 2
    return _read_long(data, position, VARINT_BYTES, _VARINT_BITS)


def read_varlong(data: bytes, position: int) -> tuple[int, int]:
    """A signed 64-bit number and the position after it."""
    return _read_long(data, position, VARLONG_BYTES, _VARLONG_BITS)


def _read_long(data: bytes, position: int, most_bytes: int, bits: int) -> tuple[int, int]:
    zigzag = 0
    shift = 0
    for byte in data[position : position + most_bytes]:
        position += 1
        zigzag |= (byte & 0x7F) << shift
        if byte < 0x80:
            if zigzag >> bits:
                raise CorruptBatch(f"a variable-length number does not fit into {bits} bits")
            return (zigzag >> 1) ^ -(zigzag & 1), position
        shift += 7
    raise CorruptBatch("a variable-length number does not end")


def append_varint(target: bytearray, number: int) -> None:
    """Write a signed number, 32 or 64 bits alike."""
    zigzag = number << 1 if number >= 0 else (-number << 1) - 1
    while zigzag > 0x7F:
        target.append((zigzag & 0x7F) | 0x80)
        zigzag >>= 7
    target.append(zigzag)
