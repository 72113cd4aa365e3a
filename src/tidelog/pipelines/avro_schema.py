"""Avro schemas as SQL columns.

Only what an Avro reader turns into plain Python values is taken: primitives, their common logical
types, enums, fixed, arrays, maps, records, and unions of one of them with null.
"""

from __future__ import annotations

import json
from typing import Any, Final

from tidelog.pipelines.spec import Column, Decode, Pipeline

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
    "date": "date",
    "timestamp-millis": "timestamp",
    "timestamp-micros": "timestamp",
    "uuid": "string",
}


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
    fields = avro_schema(pipeline, decode)["fields"]
    return tuple(Column(each["name"], _type(each["type"], each["name"])) for each in fields)


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
    kind = schema["type"]
    logical = schema.get("logicalType")
    if logical == "decimal":
        return f"decimal({schema['precision']},{schema.get('scale', 0)})"
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "array":
        return f"array<{_type(schema['items'], where)}>"
    if kind == "map":
        return f"map<string,{_type(schema['values'], where)}>"
    if kind == "record":
        fields = (
            f"{each['name']}:{_type(each['type'], each['name'])}" for each in schema["fields"]
        )
        return f"struct<{','.join(fields)}>"
    return _type(kind, where)
