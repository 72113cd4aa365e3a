"""Writes any message from plain values: mappings by field name, sequences, numbers, text.

A writer is compiled once per struct and version. Durations and timestamps are int milliseconds
(`timedelta` and `datetime` are taken too), identities are `UUID` or None, errors are `ErrorCode`
or int. In place of a mapping, one of kio's entities will do.

Invariant  A field that is not given is written with its default; a tagged one that has its
           default is not written at all.
Invariant  A field that this version lacks is dropped, one that no version has is a bug of ours.
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
from tests.protocol.kio_messages.foreign_fields import require_known_elsewhere

from tidelog.protocol.primitives import (
    INT16,
    INT32,
    INT64,
    ZERO_UUID_BYTES,
    compact_string_bytes,
    nullable_string_bytes,
    uvarint,
)
from tidelog.protocol.struct_writer import EncodedArray

Write: TypeAlias = Callable[[bytearray, Any], None]

_MILLISECOND: Final = timedelta(milliseconds=1)


@cache
def entity_writer(schema: EntitySchema) -> Write:
    """The function that writes one struct."""
    fields = [
        (field.name, write, _default_bytes(field, write))
        for field in schema.fields
        for write in [_field_writer(field, schema.flexible)]
    ]
    tagged = [
        (tag, field.name, write, _default_bytes(field, write))
        for tag, field in schema.tagged
        for write in [_tagged_writer(field)]
    ]
    names = frozenset(field.name for field in (*schema.fields, *(f for _, f in schema.tagged)))
    entity, flexible = schema.entity, schema.flexible

    def write_struct(out: bytearray, given: Any) -> None:
        values = given if isinstance(given, Mapping) else _values_of(given, names)
        if not values.keys() <= names:
            require_known_elsewhere(entity, frozenset(values.keys() - names))
        for name, write, default in fields:
            if name in values:
                write(out, values[name])
            else:
                out += default
        if flexible:
            _write_tags(out, values, tagged)

    return write_struct


def _write_tags(
    out: bytearray, values: Mapping[str, Any], tagged: list[tuple[int, str, Write, bytes]]
) -> None:
    count = 0
    encoded = bytearray()
    for tag, name, write, default in tagged:
        if name not in values:
            continue
        value = bytearray()
        write(value, values[name])
        if value != default:
            count += 1
            encoded += uvarint(tag)
            encoded += uvarint(len(value))
            encoded += value
    out += uvarint(count)
    out += encoded


def _values_of(entity: Any, names: frozenset[str]) -> Mapping[str, Any]:
    return {name: getattr(entity, name) for name in names}


def _default_bytes(field: FieldSchema, write: Write) -> bytes:
    encoded = bytearray()
    write(encoded, default_value(field))
    return bytes(encoded)


def _tagged_writer(field: FieldSchema) -> Write:
    if field.struct is not None and not field.is_array:
        # The tag's presence is what says that the struct is there.
        return entity_writer(field.struct)
    return _field_writer(field, True)


def _field_writer(field: FieldSchema, flexible: bool) -> Write:
    if field.is_array:
        element = _value_writer(field, flexible, False)
        return _array_writer(element, field, flexible)
    return _value_writer(field, flexible, field.nullable)


def _array_writer(write_element: Write, field: FieldSchema, flexible: bool) -> Write:
    name, nullable = field.name, field.nullable

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise TypeError(f"{name} must not be null")
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        if type(values) is EncodedArray:
            out += values.encoded
            return
        out += uvarint(len(values) + 1) if flexible else INT32.pack(len(values))
        for value in values:
            write_element(out, value)

    return write


def _value_writer(field: FieldSchema, flexible: bool, nullable: bool) -> Write:
    if field.struct is not None:
        write_struct = entity_writer(field.struct)
        return _nullable_struct_writer(write_struct) if nullable else write_struct
    match field.kind:
        case "string":
            write: Write = _compact_string if flexible else _string
        case "bytes" | "records":
            write = _compact_bytes if flexible else _bytes
        case _:
            return _FIXED[field.kind]
    return write if nullable else _refusing_null(field.name, write)


def _refusing_null(name: str, write: Write) -> Write:
    def write_not_null(out: bytearray, value: Any) -> None:
        if value is None:
            raise TypeError(f"{name} must not be null")
        write(out, value)

    return write_not_null


def _nullable_struct_writer(write_struct: Write) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += b"\xff"
            return
        out += b"\x01"
        write_struct(out, value)

    return write


def _compact_string(out: bytearray, value: str | None) -> None:
    out += compact_string_bytes(value)


def _string(out: bytearray, value: str | None) -> None:
    out += nullable_string_bytes(value)


def _compact_bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\x00"
        return
    out += uvarint(len(value) + 1)
    out += value


def _bytes(out: bytearray, value: bytes | None) -> None:
    if value is None:
        out += b"\xff\xff\xff\xff"
        return
    out += INT32.pack(len(value))
    out += value


def _number_writer(layout: struct.Struct) -> Write:
    def write(out: bytearray, value: Any) -> None:
        out += layout.pack(value)

    return write


def _uuid(out: bytearray, value: Any) -> None:
    out += ZERO_UUID_BYTES if value is None else value.bytes


def _duration_writer(layout: struct.Struct) -> Write:
    def write(out: bytearray, value: Any) -> None:
        out += layout.pack(value // _MILLISECOND if isinstance(value, timedelta) else value)

    return write


def _datetime(out: bytearray, value: Any) -> None:
    if value is None:
        value = -1
    elif isinstance(value, datetime):
        value = (value - EPOCH) // _MILLISECOND
    out += INT64.pack(value)


_FIXED: Final[Mapping[str, Write]] = {
    "bool": _number_writer(struct.Struct(">?")),
    "int8": _number_writer(struct.Struct(">b")),
    "int16": _number_writer(INT16),
    "int32": _number_writer(INT32),
    "int64": _number_writer(INT64),
    "uint16": _number_writer(struct.Struct(">H")),
    "float64": _number_writer(struct.Struct(">d")),
    "uuid": _uuid,
    "error_code": _number_writer(INT16),
    "timedelta_i32": _duration_writer(INT32),
    "timedelta_i64": _duration_writer(INT64),
    "datetime_i64": _datetime,
}
