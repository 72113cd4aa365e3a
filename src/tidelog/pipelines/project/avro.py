"""Avro values as columns, decoded by fastavro on executors."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import fastavro
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from tidelog.pipelines.description.spec import OUTCOME, Column
from tidelog.pipelines.project.row_functions import row_udf
from tidelog.pipelines.project.steps import decoded_by

_FRAME: Final = 5
"""A zero byte and the number of the schema, as clients of a schema registry write them."""


def decode_avro(
    rows: DataFrame, schema_file: Path, columns: Sequence[Column], registry_framing: bool
) -> DataFrame:
    """The value as one Avro datum."""
    schema = json.loads(schema_file.read_text(encoding="utf-8"))

    def avro(row: dict[str, Any]) -> dict[str, Any]:
        return decoded(schema, row["_value"], registry_framing)

    return decoded_by(rows, row_udf(avro, columns)(F.struct("_value", OUTCOME)), columns)


def decoded(schema: dict[str, Any], value: bytes | None, registry_framing: bool) -> dict[str, Any]:
    """The record in the bytes; whatever is wrong with them is an exception."""
    if value is None:
        raise ValueError("the value is null")
    if registry_framing and (len(value) < _FRAME or value[0] != 0):
        raise ValueError("the value does not begin with the number of a schema")
    stream = io.BytesIO(value[_FRAME:] if registry_framing else value)
    found = fastavro.schemaless_reader(stream, schema)
    if stream.read(1):
        raise ValueError("the value goes on behind the record")
    plain = _plain(found)
    assert isinstance(plain, dict)
    return plain


def _plain(value: Any) -> Any:
    """UUIDs are texts in a column."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list) else value
