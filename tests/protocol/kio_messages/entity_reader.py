"""Reads any message into kio's classes, with every length checked against the bytes at hand.

A reader is compiled once per struct and version: a list of field names, each with the function
that reads it.

Invariant  Whatever the bytes are, reading ends in an entity or in one of `MALFORMED`.
Invariant  Unknown tagged fields are skipped; a known one must fill exactly the size it claims.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from functools import cache
from typing import Any, Final, TypeAlias

from tests.protocol.kio_messages.entity_schema import (
    EPOCH,
    EntitySchema,
    FieldSchema,
    default_value,
)

from tidelog.model.errors import ErrorCode
from tidelog.protocol.primitives import (
    INT16,
    INT32,
    INT64,
    ZERO_UUID_BYTES,
    Buffer,
    MalformedRequest,
    read_tag,
    read_tag_count,
    read_text,
    read_uuid,
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

    def uvarint(self) -> int:
        """The next unsigned varint."""
        value, self.position = read_uvarint(self.buffer, self.position)
        return value


Read: TypeAlias = Callable[[Cursor], Any]


@cache
def entity_reader(schema: EntitySchema) -> Read:
    """The function that reads one struct."""
    entity = schema.entity
    fields = tuple((field.name, _field_reader(field, schema.flexible)) for field in schema.fields)
    if not schema.flexible:

        def read_legacy(cursor: Cursor) -> Any:
            return entity(**{name: read(cursor) for name, read in fields})

        return read_legacy

    tagged = {tag: (field.name, _tagged_reader(field)) for tag, field in schema.tagged}
    defaults = {field.name: default_value(field) for _, field in schema.tagged}

    def read_flexible(cursor: Cursor) -> Any:
        values = defaults | {name: read(cursor) for name, read in fields}
        _read_tags(cursor, tagged, values)
        return entity(**values)

    return read_flexible


def _read_tags(
    cursor: Cursor, tagged: Mapping[int, tuple[str, Read]], values: dict[str, Any]
) -> None:
    count, cursor.position = read_tag_count(cursor.buffer, cursor.position)
    for _ in range(count):
        tag, cursor.position, end = read_tag(cursor.buffer, cursor.position)
        known = tagged.get(tag)
        if known is None:
            cursor.position = end
            continue
        name, read = known
        values[name] = read(cursor)
        if cursor.position != end:
            raise MalformedRequest(f"tagged field {name} does not fill its size")


def _field_reader(field: FieldSchema, flexible: bool) -> Read:
    if field.is_array:
        return _array_reader(_value_reader(field, flexible, False), field, flexible)
    return _value_reader(field, flexible, field.nullable)


def _tagged_reader(field: FieldSchema) -> Read:
    if field.struct is not None and not field.is_array:
        # The tag's presence is what says that the struct is there.
        return _value_reader(field, True, False)
    return _field_reader(field, True)


def _array_reader(read_element: Read, field: FieldSchema, flexible: bool) -> Read:
    name, nullable = field.name, field.nullable

    def read(cursor: Cursor) -> Any:
        count = cursor.uvarint() - 1 if flexible else _int32(cursor)
        if count == -1 and nullable:
            return None
        if count < 0 or count > len(cursor.buffer) - cursor.position:
            raise MalformedRequest(f"{name} cannot have {count} elements")
        cursor.elements_left = spend(cursor.elements_left, count)
        return tuple([read_element(cursor) for _ in range(count)])

    return read


def _value_reader(field: FieldSchema, flexible: bool, nullable: bool) -> Read:
    if field.struct is not None:
        read_struct = entity_reader(field.struct)
        return _nullable_struct_reader(read_struct) if nullable else read_struct
    match field.kind:
        case "string":
            return _sized_reader(_text, _compact_length if flexible else _int16, nullable)
        case "bytes" | "records":
            return _sized_reader(_bytes, _compact_length if flexible else _int32, nullable)
        case "datetime_i64" if nullable:
            return _nullable_datetime
    return _FIXED[field.kind]


def _nullable_struct_reader(read_struct: Read) -> Read:
    def read(cursor: Cursor) -> Any:
        return None if _int8(cursor) < 0 else read_struct(cursor)

    return read


def _sized_reader(take: Callable[[Cursor, int], Any], length_of: Read, nullable: bool) -> Read:
    def read(cursor: Cursor) -> Any:
        length = length_of(cursor)
        if length == -1 and nullable:
            return None
        return take(cursor, length)

    return read


def _compact_length(cursor: Cursor) -> int:
    return cursor.uvarint() - 1


def _text(cursor: Cursor, length: int) -> str:
    text, cursor.position = read_text(cursor.buffer, cursor.position, length)
    return text


def _bytes(cursor: Cursor, length: int) -> bytes:
    start = cursor.position
    end = start + length
    if length < 0 or end > len(cursor.buffer):
        raise MalformedRequest(f"{length} bytes do not fit")
    cursor.position = end
    return bytes(cursor.buffer[start:end])


def _number_reader(layout: struct.Struct) -> Callable[[Cursor], int]:
    def read(cursor: Cursor) -> int:
        value: int
        (value,) = layout.unpack_from(cursor.buffer, cursor.position)
        cursor.position += layout.size
        return value

    return read


_int8: Final = _number_reader(struct.Struct(">b"))
_int16: Final = _number_reader(INT16)
_int32: Final = _number_reader(INT32)
_int64: Final = _number_reader(INT64)


def _bool(cursor: Cursor) -> bool:
    return _int8(cursor) != 0


def _uuid(cursor: Cursor) -> Any:
    start = cursor.position
    identity, cursor.position = read_uuid(cursor.buffer, start)
    return None if cursor.buffer[start : start + 16] == ZERO_UUID_BYTES else identity


def _error_code(cursor: Cursor) -> ErrorCode:
    code = _int16(cursor)
    # A newer broker may know more errors than we do; so do Kafka's own clients treat them.
    return _ERROR_CODES.get(code, ErrorCode.unknown_server_error)


def _milliseconds(amount: int) -> timedelta:
    """So long, or as long as can be told."""
    try:
        return timedelta(milliseconds=amount)
    except OverflowError:
        return timedelta.max if amount > 0 else timedelta.min


def _timedelta_32(cursor: Cursor) -> timedelta:
    return _milliseconds(_int32(cursor))


def _timedelta_64(cursor: Cursor) -> timedelta:
    return _milliseconds(_int64(cursor))


def _moment(timestamp_ms: int) -> datetime:
    try:
        return EPOCH + _milliseconds(timestamp_ms)
    except OverflowError:
        raise MalformedRequest(f"{timestamp_ms} ms is no date") from None


def _datetime(cursor: Cursor) -> datetime:
    return _moment(_int64(cursor))


def _nullable_datetime(cursor: Cursor) -> datetime | None:
    timestamp_ms = _int64(cursor)
    return None if timestamp_ms == -1 else _moment(timestamp_ms)


_ERROR_CODES: Final = {int(code): code for code in ErrorCode}
_FIXED: Final[Mapping[str, Read]] = {
    "bool": _bool,
    "int8": _int8,
    "int16": _int16,
    "int32": _int32,
    "int64": _int64,
    "uint16": _number_reader(struct.Struct(">H")),
    "float64": _number_reader(struct.Struct(">d")),
    "uuid": _uuid,
    "error_code": _error_code,
    "timedelta_i32": _timedelta_32,
    "timedelta_i64": _timedelta_64,
    "datetime_i64": _datetime,
}
