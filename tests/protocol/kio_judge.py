"""The second opinion on every message: kio, which has its own classes and its own codec."""

from __future__ import annotations

import dataclasses
import io
import re
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import Any

from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType
from tests.protocol.samples import fields_of

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.message import Message, RequestMessage, ResponseMessage, Struct

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def kio_class(message: type[Message], version: int) -> Any:
    """kio's class of a message, or None where it has no such version."""
    name = message.__name__
    if issubclass(message, RequestMessage):
        name, kind = name.removesuffix("Request"), "request"
    elif issubclass(message, ResponseMessage):
        name, kind = name.removesuffix("Response"), "response"
    else:
        kind = "data"
    package = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace("KRaft", "kRaft")).lower()
    try:
        module = import_module(f"kio.schema.{package.lstrip('_')}.v{version}.{kind}")
    except ModuleNotFoundError:
        return None
    (found,) = (
        value
        for value in vars(module).values()
        if dataclasses.is_dataclass(value)
        and getattr(value, "__module__", "") == module.__name__
        and getattr(value, "__type__", None) is not EntityType.nested
    )
    return found


def judged(message: Message, version: int, body: bytes) -> tuple[Any, bytes]:
    """What kio reads in the bytes, as one of our messages, and what it writes for it."""
    entity = kio_class(type(message), version)
    read, size = entity_reader(entity)(memoryview(body).toreadonly(), 0)
    assert size == len(body)
    written = io.BytesIO()
    entity_writer(entity)(written, read)
    return as_ours(read, type(message), version), written.getvalue()


def as_ours(entity: Any, struct: type[Struct], version: int) -> Any:
    """kio's fields stand in the same order, under names of its own."""
    ours = fields_of(struct, version)
    theirs = dataclasses.fields(entity)
    assert len(ours) == len(theirs)
    values: dict[str, Any] = {}
    for field, each in zip(ours, theirs, strict=True):
        value = getattr(entity, each.name)
        values[field.name] = _value(value, field.kind, version, field.is_array, each.metadata)
    return struct(**values)


def _value(value: Any, kind: Any, version: int, is_array: bool, metadata: Any) -> Any:
    if is_array:
        return (
            None
            if value is None
            else tuple(_value(each, kind, version, False, metadata) for each in value)
        )
    if metadata.get("kafka_type") == "datetime_i64":
        return -1 if value is None else (value - _EPOCH) // _MILLISECOND
    if value is None:
        return ZERO_UUID if kind == "uuid" else None
    if isinstance(kind, type):
        return as_ours(value, kind, version)
    if isinstance(value, timedelta):
        return value // _MILLISECOND
    return ErrorCode(value) if kind == "error_code" else value


def with_dates_that_kio_keeps(message: Any, entity: Any, version: int) -> Any:
    """The same message with whole seconds in place of the moments for which kio has a type."""
    ours = fields_of(type(message), version)
    values: dict[str, Any] = {}
    for field, each in zip(ours, dataclasses.fields(entity), strict=True):
        value = getattr(message, field.name)
        if each.metadata.get("kafka_type") == "datetime_i64":
            value = abs(value) % (1 << 33) * 1000
        elif isinstance(field.kind, type) and value is not None:
            inner = _struct_class(each.type)
            value = (
                tuple(with_dates_that_kio_keeps(one, inner, version) for one in value)
                if field.is_array
                else with_dates_that_kio_keeps(value, inner, version)
            )
        elif each.metadata.get("kafka_type") == "timedelta_i64":
            value = value % (1 << 40)
        values[field.name] = value
    return type(message)(**values)


def _struct_class(annotation: Any) -> Any:
    while not dataclasses.is_dataclass(annotation):
        annotation = annotation.__args__[0]
    return annotation
