"""What a message of one version consists of, taken from kio's message classes.

kio's classes are generated from Kafka's own message definitions; here they serve as the schema.
Its native reader is not used: it takes the memory an array length claims before it looks at the
bytes, and the process dies when there is not that much.

Invariant  Fields stand in wire order; tagged ones apart, by ascending tag.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Final, Literal, NamedTuple, TypeAlias, Union, get_args, get_origin

from kio.static.constants import EntityType
from tests.protocol.kio_messages.own_fields import with_own_fields

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

MessageKind: TypeAlias = Literal["request", "response"]

STRUCT: Final = "struct"
EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class _NoDefault:
    """Marks a field for which Kafka's definition names no default."""


NO_DEFAULT: Final = _NoDefault()


class FieldSchema(NamedTuple):
    """One field: `kind` is kio's name of the wire type, or `STRUCT`; nullability of an array is
    that of the array itself."""

    name: str
    kind: str
    is_array: bool
    nullable: bool
    struct: EntitySchema | None
    default: Any


@dataclass(frozen=True, slots=True, eq=False)
class EntitySchema:
    """One struct of a message, the message itself included. There is one object for each."""

    entity: Any
    flexible: bool
    fields: tuple[FieldSchema, ...]
    tagged: tuple[tuple[int, FieldSchema], ...]


class UnknownMessage(LookupError):
    """kio has no such API or version."""


@cache
def message_schema(api_key: int, version: int, kind: MessageKind) -> EntitySchema:
    """The schema of a request or response; its version is imported on first use."""
    for candidate in message_classes(api_key, version, kind):
        if candidate.__type__ is EntityType[kind]:
            return _entity_schema(candidate)
    raise UnknownMessage(f"API key {api_key} version {version} has no {kind}")


def message_classes(api_key: int, version: int, kind: MessageKind) -> list[Any]:
    """kio's classes of a message: one for each of its structs, and one for the whole."""
    try:
        module = import_module(f"kio.schema.{ApiKey(api_key).name.lower()}.v{version}.{kind}")
    except (ModuleNotFoundError, ValueError) as error:
        raise UnknownMessage(f"API key {api_key} has no {kind} version {version}") from error
    own = [value for value in vars(module).values() if _module_of(value) == module.__name__]
    return [value for value in own if dataclasses.is_dataclass(value)]


def _module_of(value: Any) -> str | None:
    return getattr(value, "__module__", None)


@cache
def _entity_schema(entity: Any) -> EntitySchema:
    entity = with_own_fields(entity)
    fields: list[FieldSchema] = []
    tagged: list[tuple[int, FieldSchema]] = []
    for field in dataclasses.fields(entity):
        schema = _field_schema(field)
        if "tag" in field.metadata:
            tagged.append((field.metadata["tag"], schema))
        else:
            fields.append(schema)
    tagged.sort(key=lambda numbered: numbered[0])
    return EntitySchema(entity, entity.__flexible__, tuple(fields), tuple(tagged))


def _field_schema(field: dataclasses.Field[Any]) -> FieldSchema:
    annotation, nullable = _without_none(field.type)
    is_array = get_origin(annotation) is tuple
    if is_array:
        annotation, _ = _without_none(get_args(annotation)[0])
    is_struct = dataclasses.is_dataclass(annotation)
    struct = _entity_schema(annotation) if is_struct else None
    return FieldSchema(
        name=field.name,
        kind=STRUCT if struct is not None else field.metadata["kafka_type"],
        is_array=is_array,
        nullable=nullable,
        struct=struct,
        default=NO_DEFAULT if field.default is dataclasses.MISSING else field.default,
    )


def _without_none(annotation: Any) -> tuple[Any, bool]:
    if get_origin(annotation) not in (UnionType, Union):
        return annotation, False
    (inner,) = (option for option in get_args(annotation) if option is not NoneType)
    return inner, True


def default_value(field: FieldSchema) -> Any:
    """What the field holds when nobody sets it: Kafka's default, or its type's zero value."""
    if field.default is not NO_DEFAULT:
        return field.default
    if field.is_array:
        return ()
    if field.struct is not None:
        everything = (*field.struct.fields, *(inner for _, inner in field.struct.tagged))
        return field.struct.entity(**{inner.name: default_value(inner) for inner in everything})
    if field.kind == "records":
        return None if field.nullable else b""
    return _ZERO.get(field.kind, 0)


_ZERO: Final = {
    "bool": False,
    "string": "",
    "bytes": b"",
    "uuid": None,
    "float64": 0.0,
    "error_code": ErrorCode.none,
    "timedelta_i32": timedelta(),
    "timedelta_i64": timedelta(),
    "datetime_i64": EPOCH,
}
