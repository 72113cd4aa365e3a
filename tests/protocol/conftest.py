"""Messages of every API and version: random ones for round trips, full ones to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias
from uuid import UUID

import pytest
from hypothesis import strategies as st
from tests.protocol.kio_messages.entity_schema import (
    EntitySchema,
    FieldSchema,
    MessageKind,
    message_schema,
)
from tests.protocol.kio_messages.own_fields import FIRST_TAG

from tidelog.model.errors import ErrorCode

Entities: TypeAlias = Callable[[int, int, MessageKind], st.SearchStrategy[Any]]
FullEntity: TypeAlias = Callable[[int, int, MessageKind], Any]

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_SCALARS: dict[str, st.SearchStrategy[Any]] = {
    kind: st.integers(-(1 << bits - 1), (1 << bits - 1) - 1) for kind, bits in _BITS.items()
} | {
    "uint16": st.integers(0, 65535),
    "bool": st.booleans(),
    "float64": st.floats(allow_nan=False, allow_infinity=False),
    "string": st.text(max_size=8) | st.just("long " * 40),
    "bytes": st.binary(max_size=8) | st.just(b"long " * 40),
    "records": st.binary(max_size=8) | st.just(b"long " * 40),
    "uuid": st.none() | st.builds(UUID, int=st.integers(1, (1 << 128) - 1)),
    "error_code": st.sampled_from([code for code in ErrorCode if code <= 133]),  # kio knows those
    "timedelta_i32": st.integers(-(1 << 31), (1 << 31) - 1).map(lambda ms: timedelta(0, 0, 0, ms)),
    "timedelta_i64": st.integers(-(1 << 40), 1 << 40).map(lambda ms: timedelta(0, 0, 0, ms)),
    # kio keeps whole seconds only.
    "datetime_i64": st.integers(0, 1 << 33).map(lambda s: datetime.fromtimestamp(s, UTC)),
}


def _entities(schema: EntitySchema) -> st.SearchStrategy[Any]:
    return st.builds(schema.entity, **{field.name: _values(field) for field in _kafkas(schema)})


def _kafkas(schema: EntitySchema) -> tuple[FieldSchema, ...]:
    """The fields of Kafka's definition: our own ones keep their default, which is not written."""
    return (*schema.fields, *(field for tag, field in schema.tagged if tag < FIRST_TAG))


def _values(field: FieldSchema) -> st.SearchStrategy[Any]:
    one = _SCALARS[field.kind] if field.struct is None else _entities(field.struct)
    values = st.lists(one, max_size=3).map(tuple) if field.is_array else one
    return st.none() | values if field.nullable else values


_FULL: dict[str, Any] = {
    "uint16": 9092,
    "bool": True,
    "float64": 0.5,
    "string": "some-text",
    "bytes": b"some-bytes",
    "records": b"some-records",
    "uuid": UUID(int=0xC0FFEE << 64 | 7),
    "error_code": ErrorCode.not_leader_or_follower,
    "timedelta_i32": timedelta(seconds=30),
    "timedelta_i64": timedelta(days=7),
    "datetime_i64": datetime(2026, 1, 1, tzinfo=UTC),
}


def _full(schema: EntitySchema) -> Any:
    return schema.entity(**{field.name: _full_value(field) for field in _kafkas(schema)})


def _full_value(field: FieldSchema) -> Any:
    one = _FULL.get(field.kind, 3) if field.struct is None else _full(field.struct)
    return (one, one) if field.is_array else one


@pytest.fixture(scope="session")
def entities() -> Entities:
    """Random entities of kio's class for an API, version and kind."""
    return lambda api_key, version, kind: _entities(message_schema(api_key, version, kind))


@pytest.fixture(scope="session")
def full_entity() -> FullEntity:
    """The entity in which everything is there: no null, no empty array, no tag left out."""
    return lambda api_key, version, kind: _full(message_schema(api_key, version, kind))
