"""Compiles the function that writes a struct in one version, from the struct's table of fields.

Invariant  A tagged field that has its default is not written.
Invariant  What a version cannot carry is never dropped in silence, unless the writer is one that
           `loses`, or the definition calls the field ignorable.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any, Final, NoReturn, TypeAlias
from uuid import UUID

from tidelog.model.errors import InvariantBroken, TidelogError
from tidelog.protocol.message import LAYOUTS, Field, Struct, fields_of_version, runs
from tidelog.protocol.primitives import (
    INT16_MAX,
    INT32,
    ZERO_UUID_BYTES,
    compact_string_bytes,
    nullable_string_bytes,
    uvarint,
)


class Unwritable(TidelogError):
    """A value that its version of the message cannot carry."""


class EncodedArray(Sequence[Any]):
    """An array whose bytes, its length included, were made before, for the same version."""

    __slots__ = ("_count", "encoded")

    def __init__(self, count: int, encoded: bytes) -> None:
        self._count = count
        self.encoded = encoded

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: object) -> NoReturn:
        raise InvariantBroken("the elements of an encoded array are only bytes any more")


Write: TypeAlias = Callable[[bytearray, Any], None]
Get: TypeAlias = Callable[[Any], Any]

_WRITTEN_LAYOUTS: Final = LAYOUTS | {"error_code": "h"}


def struct_writer(message: type[Struct], version: int, flexible: bool, loses: bool) -> Write:
    """The function that writes one struct of a version; `loses` says that it may drop fields."""
    present, tagged, absent = fields_of_version(message, version, flexible)
    empty = message()
    parts = [_part_writer(run, version, flexible, loses) for run in runs(present, _WRITTEN_LAYOUTS)]
    tags = [
        (
            uvarint(field.tag or 0),
            attrgetter(field.name),
            getattr(empty, field.name),
            write,
            default,
        )
        for field in sorted(tagged, key=lambda field: field.tag or 0)
        for write in [_tagged_writer(field, version, loses)]
        for default in [_bytes_of(write, getattr(empty, field.name))]
    ]
    kept = [] if loses else [field.name for field in absent if not field.ignorable]
    must_be_default = [(name, getattr(empty, name)) for name in kept]

    def write_struct(out: bytearray, value: Any) -> None:
        if type(value) is not message:
            raise TypeError(f"{value!r} is no {message.__name__}")
        for name, default in must_be_default:
            if not _is_default(getattr(value, name), default):
                raise Unwritable(f"{name} is not in this version")
        for get, write in parts:
            write(out, get(value))
        if flexible:
            if tags:
                _write_tags(out, value, tags)
            else:
                out.append(0)

    return write_struct


def _is_default(value: Any, default: Any) -> bool:
    return bool(value == default or (default == () and value is not None and len(value) == 0))


def _bytes_of(write: Write, value: Any) -> bytes:
    out = bytearray()
    write(out, value)
    return bytes(out)


def _write_tags(
    out: bytearray, value: Any, tags: Sequence[tuple[bytes, Get, Any, Write, bytes]]
) -> None:
    count = 0
    written = bytearray()
    for tag, get, default, write, default_bytes in tags:
        field = get(value)
        if field is default or field == default:
            continue
        content = bytearray()
        write(content, field)
        if content != default_bytes:
            count += 1
            written += tag
            written += uvarint(len(content))
            written += content
    out += uvarint(count)
    out += written


def _part_writer(
    run: Sequence[Field], version: int, flexible: bool, loses: bool
) -> tuple[Get, Write]:
    """What to take of a struct, and the writer of it: of one field, or of neighbouring numbers."""
    if len(run) == 1:
        return attrgetter(run[0].name), _field_writer(run[0], version, flexible, loses)
    layout = struct.Struct(">" + "".join(_WRITTEN_LAYOUTS[str(field.kind)] for field in run))
    pack = layout.pack

    def write(out: bytearray, values: Any) -> None:
        out += pack(*values)

    return attrgetter(*(field.name for field in run)), write


def _tagged_writer(field: Field, version: int, loses: bool) -> Write:
    if isinstance(field.kind, type) and not field.is_array:
        write_struct = struct_writer(field.kind, version, True, loses)
        return _maybe_writer(write_struct, b"\x00") if field.nullable_in(version) else write_struct
    return _field_writer(field, version, True, loses)


def _field_writer(field: Field, version: int, flexible: bool, loses: bool) -> Write:
    nullable = field.nullable_in(version)
    if field.is_array:
        return _array_writer(field, version, flexible, loses)
    return _value_writer(field, version, flexible, nullable, loses)


def _value_writer(field: Field, version: int, flexible: bool, nullable: bool, loses: bool) -> Write:
    if isinstance(field.kind, type):
        write_struct = struct_writer(field.kind, version, flexible, loses)
        return _maybe_writer(write_struct, b"\xff") if nullable else write_struct
    match field.kind:
        case "string":
            return _string_writer(field.name, flexible, nullable, loses)
        case "bytes" | "records":
            return _bytes_writer(field.name, flexible, nullable)
        case "uuid" | "uuid_or_none":
            return _write_uuid
    return _number_writer(_WRITTEN_LAYOUTS[field.kind])


def _maybe_writer(write_struct: Write, null: bytes) -> Write:
    def write(out: bytearray, value: Any) -> None:
        if value is None:
            out += null
            return
        out += b"\x01"
        write_struct(out, value)

    return write


def _array_writer(field: Field, version: int, flexible: bool, loses: bool) -> Write:
    name, nullable = field.name, field.nullable_in(version)
    layout = _WRITTEN_LAYOUTS.get(str(field.kind))
    write_element = _value_writer(field, version, flexible, False, loses)

    def write(out: bytearray, values: Any) -> None:
        if values is None:
            if not nullable:
                raise TypeError(f"{name} must not be null")
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        if type(values) is EncodedArray:
            out += values.encoded
            return
        count = len(values)
        out += uvarint(count + 1) if flexible else INT32.pack(count)
        if layout is not None:
            out += struct.pack(f">{count}{layout}", *values)
            return
        for value in values:
            write_element(out, value)

    return write


def _string_writer(name: str, flexible: bool, nullable: bool, loses: bool) -> Write:
    to_bytes = compact_string_bytes if flexible else nullable_string_bytes

    def write(out: bytearray, value: str | None) -> None:
        if value is None and not nullable:
            raise TypeError(f"{name} must not be null")
        # What is said may be cut off; what is kept must not change.
        if not loses and value is not None and _is_too_long(value):
            raise Unwritable(f"{name} is longer than {INT16_MAX} bytes")
        out += to_bytes(value)

    return write


def _is_too_long(text: str) -> bool:
    most = 4 * len(text)
    return most > INT16_MAX and len(text.encode("utf-8", "replace")) > INT16_MAX


def _bytes_writer(name: str, flexible: bool, nullable: bool) -> Write:
    def write(out: bytearray, value: bytes | None) -> None:
        if value is None:
            if not nullable:
                raise TypeError(f"{name} must not be null")
            out += b"\x00" if flexible else b"\xff\xff\xff\xff"
            return
        out += uvarint(len(value) + 1) if flexible else INT32.pack(len(value))
        out += value

    return write


def _number_writer(layout: str) -> Write:
    pack = struct.Struct(">" + layout).pack

    def write(out: bytearray, value: Any) -> None:
        out += pack(value)

    return write


def _write_uuid(out: bytearray, value: UUID | None) -> None:
    out += ZERO_UUID_BYTES if value is None else value.bytes
