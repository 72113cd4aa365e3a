"""Kafka's encoding of the simple types: how each is written to and read from a buffer.

Plain encoding has lengths of fixed width; the flexible one has them as variable-length numbers,
one more than the length, with 0 for null.

Invariant  Reading never looks beyond the buffer: `MalformedMessage`, `struct.error` or
           `IndexError` comes first. `schema.Schema` makes one error of the three.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.model.errors import TidelogError

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
FLOAT64: Final = struct.Struct(">d")
BOOL: Final = struct.Struct(">?")
_STRING_MAX_BYTES: Final = 0x7FFF


class MalformedMessage(TidelogError):
    """The bytes are not a message of this schema and version."""


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned 32-bit number, seven bits a byte, least significant first."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def read_uvarint(buffer: memoryview, position: int) -> tuple[int, int]:
    """The number at `position` and the position behind it; IndexError past the end."""
    value = shift = 0
    while True:
        byte = buffer[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage("a variable-length number has more than five bytes")
    if value > 0xFFFFFFFF:
        raise MalformedMessage("a variable-length number does not fit 32 bits")
    return value, position


class Codec(NamedTuple):
    """How one type is written to the end of a buffer and read at a position of one."""

    write: Callable[[bytearray, Any], None]
    read: Callable[[memoryview, int], tuple[Any, int]]


def end_of(buffer: memoryview, position: int, length: int) -> int:
    """The position behind `length` bytes, which must be there."""
    end = position + length
    if end > len(buffer):
        raise MalformedMessage(f"{length} bytes announced, {len(buffer) - position} there")
    return end


def fixed(layout: struct.Struct) -> Codec:
    pack, unpack_from, size = layout.pack, layout.unpack_from, layout.size

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        return unpack_from(buffer, position)[0], position + size

    return Codec(write, read)


def _write_uuid(out: bytearray, value: UUID) -> None:
    out += value.bytes


def _read_uuid(buffer: memoryview, position: int) -> tuple[UUID, int]:
    end = end_of(buffer, position, 16)
    return UUID(bytes=bytes(buffer[position:end])), end


UUID_CODEC: Final = Codec(_write_uuid, _read_uuid)

WriteLength: TypeAlias = Callable[[bytearray, int], None]
ReadLength: TypeAlias = Callable[[memoryview, int], tuple[int, int]]


def length_codec(
    layout: struct.Struct, flexible: bool, nullable: bool
) -> tuple[WriteLength, ReadLength]:
    """Lengths: -1 for null; plain integers, or one more than the length as a uvarint."""
    least = -1 if nullable else 0

    def check(length: int) -> int:
        if length < least:
            raise MalformedMessage("null or negative length where a value must be")
        return length

    def write_compact(out: bytearray, length: int) -> None:
        write_uvarint(out, check(length) + 1)

    def read_compact(buffer: memoryview, position: int) -> tuple[int, int]:
        length, position = read_uvarint(buffer, position)
        return check(length - 1), position

    def write_plain(out: bytearray, length: int) -> None:
        out += layout.pack(check(length))

    def read_plain(buffer: memoryview, position: int) -> tuple[int, int]:
        return check(layout.unpack_from(buffer, position)[0]), position + layout.size

    return (write_compact, read_compact) if flexible else (write_plain, read_plain)


def string(write_length: WriteLength, read_length: ReadLength) -> Codec:
    def write(out: bytearray, value: str | None) -> None:
        if value is None:
            return write_length(out, -1)
        data = value.encode("utf-8")
        if len(data) > _STRING_MAX_BYTES:
            raise MalformedMessage(f"a string of {len(data)} bytes is longer than 32767")
        write_length(out, len(data))
        out += data
        return None

    def read(buffer: memoryview, position: int) -> tuple[str | None, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            return None, position
        if length > _STRING_MAX_BYTES:
            raise MalformedMessage(f"a string of {length} bytes is longer than 32767")
        end = end_of(buffer, position, length)
        return str(buffer[position:end], "utf-8"), end

    return Codec(write, read)


def byte_string(write_length: WriteLength, read_length: ReadLength) -> Codec:
    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            return write_length(out, -1)
        write_length(out, len(value))
        out += value
        return None

    def read(buffer: memoryview, position: int) -> tuple[bytes | None, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            return None, position
        end = end_of(buffer, position, length)
        return bytes(buffer[position:end]), end

    return Codec(write, read)


def array(element: Codec, write_length: WriteLength, read_length: ReadLength) -> Codec:
    write_element, read_element = element

    def write(out: bytearray, value: tuple[Any, ...] | None) -> None:
        if value is None:
            return write_length(out, -1)
        write_length(out, len(value))
        for item in value:
            write_element(out, item)
        return None

    def read(buffer: memoryview, position: int) -> tuple[tuple[Any, ...] | None, int]:
        length, position = read_length(buffer, position)
        if length < 0:
            return None, position
        end_of(buffer, position, length)  # an element has at least one byte
        items = []
        for _ in range(length):
            item, position = read_element(buffer, position)
            items.append(item)
        return tuple(items), position

    return Codec(write, read)


def optional(content: Codec) -> Codec:
    """A struct in a tagged field that may be null: a byte goes ahead, 1 when it is not."""

    def write(out: bytearray, value: Any) -> None:
        out.append(0 if value is None else 1)
        if value is not None:
            content.write(out, value)

    def read(buffer: memoryview, position: int) -> tuple[Any, int]:
        is_null = buffer[position] == 0
        return (None, position + 1) if is_null else content.read(buffer, position + 1)

    return Codec(write, read)
