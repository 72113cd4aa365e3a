"""A request with one field changed to something odd, for each field and each odd value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from tests.protocol.kio_messages.entity_schema import EntitySchema, FieldSchema, message_schema

from tidelog.protocol.apis import ApiKey

Fields = Mapping[str, Any]

SERVING = 100
"""The broker that is needed for the rest."""

BESIDE = "beside the same"
"""What was changed and, after this, which part of the request is there as it was, too."""

_TEXTS = (
    "",
    ".",
    "..",
    "__cluster_metadata",
    "__consumer_offsets",
    "a/b",
    "x" * 32_000,
    "\x00",
    "é\U0001f600",
)
NEWEST_KNOWN_TO_KIO = {ApiKey.API_VERSIONS: 4}
"""Of a newer version the fields of this one are varied."""


def variations(key: ApiKey, version: int, fields: Fields) -> Iterator[tuple[str, Fields]]:
    """What was changed, and the request that came of it."""
    known = min(version, NEWEST_KNOWN_TO_KIO.get(key, version))
    for what, changed in _vary(message_schema(key, known, "request"), fields):
        if key is not ApiKey.UNREGISTER_BROKER or changed["broker_id"] != SERVING:
            yield what, changed


def _vary(schema: EntitySchema, fields: Fields) -> Iterator[tuple[str, Fields]]:
    for field in (*schema.fields, *(tagged for _, tagged in schema.tagged)):
        for what, value in _odd_values(field, fields):
            yield f"{field.name} {what}", {**fields, field.name: value}


def _odd_values(field: FieldSchema, fields: Fields) -> Iterator[tuple[str, Any]]:
    if field.nullable:
        yield "null", None
    if field.is_array:
        yield from _odd_arrays(field, fields)
    elif field.struct is not None:
        inner = fields.get(field.name) or {}
        yield "empty", {}
        yield from _vary(field.struct, inner)
    else:
        for value in _odd_numbers(field.kind):
            yield repr(value)[:20], value


def _odd_arrays(field: FieldSchema, fields: Fields) -> Iterator[tuple[str, Any]]:
    yield "of none", []
    given = list(fields.get(field.name) or ())
    if field.struct is None:
        for value in _odd_numbers(field.kind):
            yield f"of {repr(value)[:20]}", [value]
            yield f"of {repr(value)[:20]} twice", [value, value]
        return
    first = given[0] if given else {}
    yield "twice", [*given, *given]
    yield "often", [first] * 300
    for what, inner in _vary(field.struct, first):
        yield what, [inner, *given[1:]]
        yield f"{what} {BESIDE} {field.name}", [inner, *given]


def _odd_numbers(kind: str) -> tuple[Any, ...]:
    match kind:
        case "bool":
            return (True, False)
        case "string":
            return _TEXTS
        case "bytes" | "records":
            return (b"", b"\x00", bytes(61), b"\xff" * 200)
        case "uuid":
            return (UUID(int=0), UUID(int=1), UUID(int=2), UUID(int=2**128 - 1))
        case "int8":
            return (-128, -1, 0, 1, 2, 3, 4, 8, 16, 32, 127)
        case "int16":
            return (-(2**15), -2, -1, 0, 1, 2, 2**15 - 1)
        case "uint16":
            return (0, 1, 2**16 - 1)
        case "int64" | "timedelta_i64" | "datetime_i64":
            return (-(2**63), -7, -6, -5, -4, -3, -2, -1, 0, 1, 2**40, 2**63 - 1)
        case _:
            return (-(2**31), -2, -1, 0, 1, SERVING, 2**31 - 1)
