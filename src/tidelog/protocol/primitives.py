"""The protocol's primitive types: unsigned varints, strings, identities, tagged fields.

Readers take a buffer and a position and give back the value and the position behind it.

Invariant  Nothing is read or allocated because a length field says so: a length is compared with
           the bytes that are there first.
Invariant  Whatever the bytes are, a reader here raises one of `MALFORMED` and nothing else; who
           calls readers turns those into `MalformedRequest` once, at the border.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.errors import TidelogError

Buffer: TypeAlias = bytes | bytearray | memoryview


class MalformedRequest(TidelogError):
    """Bytes that are no valid message; nobody answers them, the connection is closed."""


MALFORMED: Final = (IndexError, struct.error, UnicodeDecodeError, MalformedRequest)
"""What the readers raise on bad bytes: end of buffer, bad UTF-8, or a length that cannot be."""

INT16: Final = struct.Struct(">h")
INT32: Final = struct.Struct(">i")
INT64: Final = struct.Struct(">q")
INT16_MAX: Final = (1 << 15) - 1

ZERO_UUID_BYTES: Final = bytes(16)

ELEMENTS_MAX: Final = 1 << 17
"""The most array elements, nested ones included, that one request may have.

Far more than any client sends. Three bytes on the wire can become an object of a hundred, so
without it a frame of legal size could take gigabytes and block the loop for a minute.
"""

TAGS_MAX: Final = 32
"""The most tagged fields one struct may have, for the same reason. The protocol uses five."""


def malformed(why: str, cause: Exception) -> MalformedRequest:
    """The one exception callers see, for whatever a reader stumbled over.

    Always a new one: raised from itself, an exception refers to itself, and its traceback keeps
    the buffer of the request until cycles are collected.
    """
    if isinstance(cause, MalformedRequest):
        return MalformedRequest(str(cause))
    return MalformedRequest(f"{why}: {cause}")


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits."""
    value = buffer[position]
    if value < 0x80:
        return value, position + 1
    value &= 0x7F
    for shift in (7, 14, 21, 28):
        position += 1
        byte = buffer[position]
        if byte < 0x80:
            value |= byte << shift
            if value > 0xFFFFFFFF:
                break
            return value, position + 1
        value |= (byte & 0x7F) << shift
    raise MalformedRequest("a varint is longer than 32 bits")


def uvarint(value: int) -> bytes:
    """The varint form of a number that is not negative."""
    if value < 0x80:
        return _ONE_BYTE[value]
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_ONE_BYTE: Final = tuple(bytes((value,)) for value in range(0x80))


def read_text(buffer: Buffer, position: int, length: int) -> tuple[str, int]:
    """UTF-8 text of a length that was read before.

    It is never longer than an int16 can say, whatever the encoding: so Kafka has it, and so it fits
    into the records that it may become part of.
    """
    end = position + length
    if not 0 <= length <= INT16_MAX or end > len(buffer):
        raise MalformedRequest(f"a string of {length} bytes does not fit")
    return str(buffer[position:end], "utf-8"), end


def read_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string with an int16 length."""
    (length,) = INT16.unpack_from(buffer, position)
    return read_text(buffer, position + 2, length)


def read_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string with an int16 length, where -1 is null."""
    (length,) = INT16.unpack_from(buffer, position)
    if length == -1:
        return None, position + 2
    return read_text(buffer, position + 2, length)


def read_compact_string(buffer: Buffer, position: int) -> tuple[str, int]:
    """A string with a varint length plus one."""
    length, position = read_uvarint(buffer, position)
    return read_text(buffer, position, length - 1)


def read_compact_nullable_string(buffer: Buffer, position: int) -> tuple[str | None, int]:
    """A string with a varint length plus one, where 0 is null."""
    length, position = read_uvarint(buffer, position)
    if length == 0:
        return None, position
    return read_text(buffer, position, length - 1)


def read_nullable_count(buffer: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """How many elements an array has, -1 for null. Every element takes at least one byte."""
    if flexible:
        if (count := buffer[position]) < 0x80:
            position += 1
        else:
            count, position = read_uvarint(buffer, position)
        count -= 1
    else:
        (count,) = INT32.unpack_from(buffer, position)
        position += 4
    if count < -1 or count > len(buffer) - position:
        raise MalformedRequest(f"an array of {count} elements does not fit")
    return count, position


def read_count(buffer: Buffer, position: int, flexible: bool) -> tuple[int, int]:
    """How many elements an array has that must not be null."""
    if flexible and 0 < (count := buffer[position]) < 0x80 and count <= len(buffer) - position:
        return count - 1, position + 1
    count, position = read_nullable_count(buffer, position, flexible)
    if count < 0:
        raise MalformedRequest("an array is null that must not be")
    return count, position


def spend(elements_left: int, count: int) -> int:
    """What remains of a request's `ELEMENTS_MAX` after an array of `count` elements."""
    elements_left -= count
    if elements_left < 0:
        raise MalformedRequest(f"a request has more than {ELEMENTS_MAX} elements")
    return elements_left


def read_uuid(buffer: Buffer, position: int) -> tuple[UUID, int]:
    """An identity of 16 bytes."""
    end = position + 16
    if end > len(buffer):
        raise MalformedRequest("an identity does not fit")
    return _uuid(bytes(buffer[position:end])), end


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    # Building one costs more than reading the rest of a small request.
    return UUID(bytes=raw)


def read_tag_count(buffer: Buffer, position: int) -> tuple[int, int]:
    """How many tagged fields follow."""
    count = buffer[position]
    if count > TAGS_MAX:
        raise MalformedRequest(f"a struct has more than {TAGS_MAX} tagged fields")
    return count, position + 1


def read_tag(buffer: Buffer, position: int) -> tuple[int, int, int]:
    """One tagged field: its tag, where its value begins, and where it ends."""
    tag, position = read_uvarint(buffer, position)
    size, position = read_uvarint(buffer, position)
    if size > len(buffer) - position:
        raise MalformedRequest(f"a tagged field of {size} bytes does not fit")
    return tag, position, position + size


def skip_tags(buffer: Buffer, position: int) -> int:
    """The position behind a struct's tagged fields, none of which is known here."""
    if buffer[position] == 0:
        return position + 1
    count, position = read_tag_count(buffer, position)
    for _ in range(count):
        _, _, position = read_tag(buffer, position)
    return position


def _utf8(text: str) -> bytes:
    # Names of files may hold what is no text; telling a client about one must not fail.
    return text.encode("utf-8", "replace")


def string_bytes(text: str) -> bytes:
    """A string with an int16 length."""
    encoded = _cut(_utf8(text))
    return INT16.pack(len(encoded)) + encoded


def _cut(encoded: bytes) -> bytes:
    """What does not fit is cut off: an error that quotes a name of the longest possible length
    must not become an answer that cannot be written, or that nobody would read."""
    if len(encoded) > INT16_MAX:
        return _utf8(encoded[:INT16_MAX].decode("utf-8", "ignore"))
    return encoded


def nullable_string_bytes(text: str | None) -> bytes:
    """A string with an int16 length, where -1 is null."""
    return b"\xff\xff" if text is None else string_bytes(text)


def compact_string_bytes(text: str | None) -> bytes:
    """A string with a varint length plus one, where 0 is null."""
    if text is None:
        return b"\x00"
    encoded = _cut(_utf8(text))
    return uvarint(len(encoded) + 1) + encoded


def count_bytes(count: int, flexible: bool) -> bytes:
    """The number of elements of an array, -1 for null."""
    return uvarint(count + 1) if flexible else INT32.pack(count)
