"""Messages of every class and version: random ones for round trips, full ones to be damaged."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from hypothesis import strategies as st

from tidelog.model.errors import ErrorCode
from tidelog.protocol.message import Field, Message, Struct

_BITS: Final = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_IDENTITIES: Final = st.builds(UUID, int=st.integers(1, (1 << 128) - 1))
_SCALARS: Final[dict[str, st.SearchStrategy[Any]]] = {
    kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in _BITS.items()
} | {
    "uint16": st.integers(0, 65535),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=8) | st.just("long " * 40),
    "bytes": st.binary(max_size=8) | st.just(b"long " * 40),
    "records": st.binary(max_size=8) | st.just(b"long " * 40),
    "uuid": _IDENTITIES,
    "uuid_or_none": st.none() | _IDENTITIES,
    "error_code": st.sampled_from([code for code in ErrorCode if code <= 133]),
}
_FULL: Final[dict[str, Any]] = {
    "uint16": 9092,
    "bool": True,
    "float64": 0.5,
    "string": "some-text",
    "bytes": b"some-bytes",
    "records": b"some-records",
    "uuid": UUID(int=0xC0FFEE << 64 | 7),
    "uuid_or_none": UUID(int=0xC0FFEE << 64 | 7),
    "error_code": ErrorCode.not_leader_or_follower,
}
FIRST_OWN_TAG: Final = 10_000


def fields_of(struct: type[Struct], version: int) -> list[Field]:
    """What a version of a message has of a struct, as Kafka defines it."""
    return [
        field
        for field in struct.FIELDS
        if field.since <= version <= field.until and (field.tag or 0) < FIRST_OWN_TAG
    ]


def random_messages(message: type[Message], version: int) -> st.SearchStrategy[Any]:
    """Any message that the version can carry."""
    return _random(message, version, version >= message.FLEXIBLE_SINCE)


def _random(struct: type[Struct], version: int, flexible: bool) -> st.SearchStrategy[Any]:
    return st.builds(
        struct,
        **{
            field.name: _values(field, version, flexible)
            for field in fields_of(struct, version)
            if field.tag is None or flexible
        },
    )


def _values(field: Field, version: int, flexible: bool) -> st.SearchStrategy[Any]:
    if isinstance(field.kind, type):
        values = _random(field.kind, version, flexible)
    else:
        values = _SCALARS[field.kind]
    if field.is_array:
        values = st.lists(values, max_size=3).map(tuple)
    return st.none() | values if is_nullable(field, version) else values


def is_nullable(field: Field, version: int) -> bool:
    return field.nullable_since <= version <= field.nullable_until


def full_message(message: type[Message], version: int) -> Any:
    """The message in which everything is there: no null, no empty array, no tag left out."""
    return _full(message, version, version >= message.FLEXIBLE_SINCE)


def _full(struct: type[Struct], version: int, flexible: bool) -> Any:
    values: dict[str, Any] = {}
    for field in fields_of(struct, version):
        if field.tag is not None and not flexible:
            continue
        if isinstance(field.kind, type):
            one = _full(field.kind, version, flexible)
        else:
            one = _FULL.get(field.kind, 3)
        values[field.name] = (one, one) if field.is_array else one
    return struct(**values)
