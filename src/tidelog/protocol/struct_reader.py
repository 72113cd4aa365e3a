"""Compiles the function that reads a struct in one version, from the struct's table of fields.

Invariant  Whatever the bytes are, reading ends in a struct or in one of `MALFORMED`. Nothing is
           allocated because a length says so: it is compared with the bytes that are there, and
           the elements of one message, nested ones included, are limited, as are its tags.
Invariant  A field that the version lacks has its default.
Invariant  Unknown tagged fields are skipped; a known one must fill exactly the size it claims.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Final, TypeAlias
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.protocol.message import LAYOUTS, Field, Struct, fields_of_version, runs
from tidelog.protocol.primitives import (
    INT16,
    INT16_MAX,
    INT32,
    ZERO_UUID_BYTES,
    Buffer,
    MalformedRequest,
    read_tag,
    read_tag_count,
    read_uvarint,
    spend,
)


class Cursor:
    """A place in a buffer that moves forward, and what the message may still contain."""

    __slots__ = ("buffer", "elements_left", "position")

    def __init__(self, buffer: Buffer, position: int, elements_left: int) -> None:
        self.buffer = buffer
        self.position = position
        self.elements_left = elements_left


Read: TypeAlias = Callable[[Cursor], Any]

_INT8: Final = struct.Struct(">b")
_ERROR_CODES: Final = {int(code): code for code in ErrorCode}


def struct_reader(message: type[Struct], version: int, flexible: bool) -> Read:
    """The function that reads one struct of a version."""
    present, tagged, absent = fields_of_version(message, version, flexible)
    defaults = [(field.name, getattr(message(), field.name)) for field in (*tagged, *absent)]
    parts = [_part_reader(run, version, flexible) for run in runs(present, LAYOUTS)]
    known = {field.tag: (field.name, _tagged_reader(field, version)) for field in tagged}
    new = object.__new__

    def read(cursor: Cursor) -> Any:
        value = new(message)
        for names, read_part in parts:
            part = read_part(cursor)
            if type(names) is str:
                setattr(value, names, part)
            else:
                for name, each in zip(names, part, strict=True):
                    setattr(value, name, each)
        for name, default in defaults:
            setattr(value, name, default)
        if flexible:
            buffer = cursor.buffer
            if buffer[cursor.position] == 0:
                cursor.position += 1
            else:
                _read_tags(cursor, known, value)
        return value

    return read


def _read_tags(cursor: Cursor, known: dict[int | None, tuple[str, Read]], value: Any) -> None:
    count, cursor.position = read_tag_count(cursor.buffer, cursor.position)
    for _ in range(count):
        tag, cursor.position, end = read_tag(cursor.buffer, cursor.position)
        if tag not in known:
            cursor.position = end
            continue
        name, read = known[tag]
        setattr(value, name, read(cursor))
        if cursor.position != end:
            raise MalformedRequest(f"tagged field {name} does not fill its size")


def _part_reader(
    run: Sequence[Field], version: int, flexible: bool
) -> tuple[str | tuple[str, ...], Read]:
    """The reader of one field, or of several numbers that stand side by side."""
    if len(run) == 1:
        return run[0].name, _field_reader(run[0], version, flexible)
    layout = struct.Struct(">" + "".join(LAYOUTS[str(field.kind)] for field in run))
    unpack_from, size = layout.unpack_from, layout.size

    def read(cursor: Cursor) -> Any:
        values = unpack_from(cursor.buffer, cursor.position)
        cursor.position += size
        return values

    return tuple(field.name for field in run), read


def _tagged_reader(field: Field, version: int) -> Read:
    if isinstance(field.kind, type) and not field.is_array:
        read_struct = struct_reader(field.kind, version, True)
        return _maybe(read_struct, 0) if field.nullable_in(version) else read_struct
    return _field_reader(field, version, True)


def _field_reader(field: Field, version: int, flexible: bool) -> Read:
    nullable = field.nullable_in(version)
    if field.is_array:
        return _array_reader(field, version, flexible, nullable)
    return _value_reader(field, version, flexible, nullable)


def _value_reader(field: Field, version: int, flexible: bool, nullable: bool) -> Read:
    if isinstance(field.kind, type):
        read_struct = struct_reader(field.kind, version, flexible)
        return _maybe(read_struct, -1) if nullable else read_struct
    match field.kind:
        case "string":
            return _string_reader(field.name, flexible, nullable)
        case "bytes" | "records":
            return _bytes_reader(field.name, flexible, nullable)
        case "uuid":
            return _read_uuid
        case "uuid_or_none":
            return _read_uuid_or_none
        case "error_code":
            return _read_error_code
    return _number_reader(LAYOUTS[field.kind])


def _maybe(read_struct: Read, null: int) -> Read:
    """A struct behind a byte that says whether it is there: 1, or `null` or less when not."""

    def read(cursor: Cursor) -> Any:
        (marker,) = _INT8.unpack_from(cursor.buffer, cursor.position)
        cursor.position += 1
        return None if marker <= null else read_struct(cursor)

    return read


def _array_reader(field: Field, version: int, flexible: bool, nullable: bool) -> Read:
    name = field.name
    layout = LAYOUTS.get(str(field.kind))
    read_element = _value_reader(field, version, flexible, False)
    size = 0 if layout is None else struct.calcsize(">" + layout)

    def read(cursor: Cursor) -> Any:
        count = _length(cursor, INT32, flexible)
        if count == -1 and nullable:
            return None
        # Every element takes at least one byte.
        if count < 0 or count > len(cursor.buffer) - cursor.position:
            raise MalformedRequest(f"{name} cannot have {count} elements")
        cursor.elements_left = spend(cursor.elements_left, count)
        if layout is None:
            return tuple([read_element(cursor) for _ in range(count)])
        numbers = struct.unpack_from(f">{count}{layout}", cursor.buffer, cursor.position)
        cursor.position += count * size
        return numbers

    return read


def _length(cursor: Cursor, layout: struct.Struct, flexible: bool) -> int:
    """A length or a count, -1 for null."""
    if not flexible:
        length: int
        (length,) = layout.unpack_from(cursor.buffer, cursor.position)
        cursor.position += layout.size
        return length
    length = cursor.buffer[cursor.position]
    if length < 0x80:
        cursor.position += 1
        return length - 1
    length, cursor.position = read_uvarint(cursor.buffer, cursor.position)
    return length - 1


def _string_reader(name: str, flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> str | None:
        length = _length(cursor, INT16, flexible)
        if length < 0 and not (nullable and length == -1):
            raise MalformedRequest(f"{name} cannot have a length of {length}")
        if length < 0:
            return None
        buffer, start = cursor.buffer, cursor.position
        end = start + length
        if length > INT16_MAX or end > len(buffer):
            raise MalformedRequest(f"{name} of {length} bytes does not fit")
        cursor.position = end
        return str(buffer[start:end], "utf-8")

    return read


def _bytes_reader(name: str, flexible: bool, nullable: bool) -> Read:
    def read(cursor: Cursor) -> bytes | None:
        length = _length(cursor, INT32, flexible)
        if length == -1 and nullable:
            return None
        start = cursor.position
        end = start + length
        if length < 0 or end > len(cursor.buffer):
            raise MalformedRequest(f"{name} cannot have {length} bytes")
        cursor.position = end
        return bytes(cursor.buffer[start:end])

    return read


def _number_reader(layout: str) -> Read:
    number = struct.Struct(">" + layout)
    unpack_from, size = number.unpack_from, number.size

    def read(cursor: Cursor) -> Any:
        (value,) = unpack_from(cursor.buffer, cursor.position)
        cursor.position += size
        return value

    return read


def _read_error_code(cursor: Cursor) -> ErrorCode:
    (code,) = INT16.unpack_from(cursor.buffer, cursor.position)
    cursor.position += 2
    return _ERROR_CODES.get(code, ErrorCode.unknown_server_error)


def _read_uuid(cursor: Cursor) -> UUID:
    return _uuid(_sixteen(cursor))


def _read_uuid_or_none(cursor: Cursor) -> UUID | None:
    raw = _sixteen(cursor)
    return None if raw == ZERO_UUID_BYTES else _uuid(raw)


def _sixteen(cursor: Cursor) -> bytes:
    start = cursor.position
    cursor.position = end = start + 16
    if end > len(cursor.buffer):
        raise MalformedRequest("an identity does not fit")
    return bytes(cursor.buffer[start:end])


@lru_cache(maxsize=4096)
def _uuid(raw: bytes) -> UUID:
    # Building one costs more than reading the rest of a small request.
    return UUID(bytes=raw)
