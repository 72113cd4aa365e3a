"""SQL types as Arrow types, without a session that would parse them."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
from sqlglot import exp

_PLAIN: Final = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "FLOAT": pa.float32(),
    "DOUBLE": pa.float64(),
    "TEXT": pa.string(),
    "VARCHAR": pa.string(),
    "CHAR": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", "UTC"),
    "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "TIMESTAMPLTZ": pa.timestamp("us", "UTC"),
}


def arrow_type(text: str) -> pa.DataType:
    """`struct<a: bigint>` as Arrow has it."""
    return _arrow_type(exp.DataType.build(text, dialect="spark"))


def _arrow_type(parsed: exp.DataType) -> pa.DataType:
    kind = parsed.this.name
    if kind == "ARRAY":
        return pa.list_(_arrow_type(parsed.expressions[0]))
    if kind == "MAP":
        return pa.map_(*map(_arrow_type, parsed.expressions))
    if kind == "STRUCT":
        return pa.struct([(each.name, _arrow_type(each.kind)) for each in parsed.expressions])
    if kind == "DECIMAL":
        given = [int(each.name) for each in parsed.expressions]
        return pa.decimal128(*(given or [10]), *([0] if len(given) < 2 else []))
    return _PLAIN[kind]
