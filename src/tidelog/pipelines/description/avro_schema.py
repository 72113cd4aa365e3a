"""Avro schemas as SQL columns.

Only what an Avro reader turns into plain Python values is taken: primitives, their common logical
types, enums, fixed, arrays, maps, records, and unions of one of them with null.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tidelog.pipelines.description.spec import Column, Decode, Pipeline

_PRIMITIVES: Final = {
    "boolean": "boolean",
    "int": "int",
    "long": "bigint",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "binary",
    "enum": "string",
    "fixed": "binary",
}
_LOGICAL: Final = {
    ("int", "date"): "date",
    ("long", "timestamp-millis"): "timestamp",
    ("long", "timestamp-micros"): "timestamp",
    ("string", "uuid"): "string",
}
_DECIMALS: Final = (("bytes", "decimal"), ("fixed", "decimal"))


class AvroMistake(ValueError):
    """The schema cannot become columns; the message says why."""


def avro_schema(pipeline: Pipeline, decode: Decode) -> dict[str, Any]:
    """The schema in the file beside the pipeline's own."""
    path = pipeline.path.parent / str(decode.schema_file)
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise AvroMistake(f"there is no file {decode.schema_file} beside this one") from None
    except ValueError as error:
        raise AvroMistake(f"{decode.schema_file} is not JSON: {error}") from None
    if not isinstance(schema, dict) or schema.get("type") != "record":
        raise AvroMistake(f"{decode.schema_file} is not the schema of a record")
    return schema


def avro_columns(pipeline: Pipeline, decode: Decode) -> tuple[Column, ...]:
    """The fields of the record as columns."""
    fields = _fields(avro_schema(pipeline, decode), str(decode.schema_file))
    return tuple(Column(name, kind) for name, kind in fields)


def _fields(record: dict[str, Any], where: str) -> list[tuple[str, str]]:
    fields = _part(record, "fields", where)
    if not isinstance(fields, list) or not fields:
        raise AvroMistake(f"{where} is a record without fields")
    named = [(str(_part(each, "name", f"a field of {where}")), each) for each in fields]
    return [(name, _type(_part(each, "type", name), name)) for name, each in named]


def _type(schema: Any, where: str) -> str:
    if isinstance(schema, list):
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise AvroMistake(f"{where} is a union of several types, which no column can be")
        return _type(others[0], where)
    if isinstance(schema, str):
        if schema not in _PRIMITIVES:
            raise AvroMistake(f"{where} has a type that is defined elsewhere: {schema}")
        return _PRIMITIVES[schema]
    kind = _part(schema, "type", where)
    if (logical := schema.get("logicalType")) is not None:
        return _logical_type(schema, kind, logical, where)
    if kind == "array":
        return f"array<{_type(_part(schema, 'items', where), where)}>"
    if kind == "map":
        return f"map<string,{_type(_part(schema, 'values', where), where)}>"
    if kind == "record":
        fields = (f"{name}:{inner}" for name, inner in _fields(schema, where))
        return f"struct<{','.join(fields)}>"
    return _type(kind, where)


def _logical_type(schema: dict[str, Any], kind: Any, logical: Any, where: str) -> str:
    if (kind, logical) in _DECIMALS:
        return f"decimal({_part(schema, 'precision', where)},{schema.get('scale', 0)})"
    if (kind, logical) not in _LOGICAL:
        known = ", ".join(f"{name} of {each}" for each, name in (*_LOGICAL, *_DECIMALS))
        raise AvroMistake(
            f"{where} has the logical type {logical} of {kind}, which no column can be; "
            f"there is {known}"
        )
    return _LOGICAL[kind, logical]


def _part(schema: Any, key: str, where: str) -> Any:
    if not isinstance(schema, dict) or key not in schema:
        raise AvroMistake(f"{where} has no {key} in its Avro schema")
    return schema[key]
