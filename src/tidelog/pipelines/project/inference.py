"""Schemas of JSON records, found out by looking at some of them.

Where records disagree on a type, the one that holds all of them is taken: whole numbers become
doubles, anything else becomes text. Names that differ in case alone are one column; names that SQL
cannot quote, and our own, are passed over.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

from tidelog.pipelines.description.spec import Column, Pipeline, is_ours
from tidelog.pipelines.project.source_options import ends_now, source_options
from tidelog.spark.options import read_options
from tidelog.spark.source.offsets import Position, Positions
from tidelog.spark.source.range_reading import RangeReading
from tidelog.spark.source.ranges import OffsetRange

_SAMPLE: Final = 1000
"""Records of each partition that are looked at: the next ones that a run will read."""

_DEEPEST: Final = 20
"""Levels of a type; a record with more of them is passed over."""


def infer_columns(pipeline: Pipeline, table: str, position: Positions) -> tuple[Column, ...]:
    """The columns of the records from here on; none where there are no such records."""
    return columns_in(_values(pipeline, table, position))


def columns_in(values: Iterable[bytes | None]) -> tuple[Column, ...]:
    """The columns of JSON objects; anything else is passed over."""
    kinds: dict[str, Any] = {}
    for value in values:
        try:
            parsed = json.loads(value or b"")
            found = _fields(parsed, _DEEPEST) if isinstance(parsed, dict) else {}
        except (ValueError, RecursionError):
            continue
        kinds = _merge_fields(kinds, found)
    return tuple(Column(name, _text(kind)) for name, kind in kinds.items() if not is_ours(name))


def _values(pipeline: Pipeline, table: str, position: Positions) -> Iterator[bytes | None]:
    # A sample that ages out under the reader is no loss: the run itself will meet it.
    options = read_options({**source_options(pipeline, table), "failOnDataLoss": "false"})
    earliest, latest = ends_now(pipeline, table)
    for partition, end in latest.items():
        start = max(position.get(partition, Position(0)).offset, earliest[partition].offset)
        last = min(end.offset, start + _SAMPLE)
        if start < last:
            for messages in RangeReading(options, OffsetRange(partition, start, last)).messages():
                yield from (each.value() for each in messages)


def _fields(value: dict[str, Any], depth: int) -> dict[str, Any]:
    if depth == 0:
        raise ValueError("nested too deep for a type")
    return {
        name: _kind(each, depth - 1) for name, each in value.items() if name and "`" not in name
    }


def _kind(value: Any, depth: int) -> Any:
    if value is None:
        return None
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -(2**63) <= value < 2**63 else "double"
    if isinstance(value, float):
        return "double"
    if isinstance(value, list):
        if depth == 0:
            raise ValueError("nested too deep for a type")
        kind = None
        for each in value:
            kind = _merge(kind, _kind(each, depth - 1))
        return [kind]
    if isinstance(value, dict):
        return _fields(value, depth)
    return "string"


def _merge(one: Any, other: Any) -> Any:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, dict) and isinstance(other, dict):
        return _merge_fields(one, other)
    if isinstance(one, list) and isinstance(other, list):
        return [_merge(one[0], other[0])]
    if one == other:
        return one
    return "double" if {str(one), str(other)} == {"bigint", "double"} else "string"


def _merge_fields(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    found = dict(one)
    spelling = {name.lower(): name for name in one}
    for name, kind in other.items():
        known = spelling.setdefault(name.lower(), name)
        found[known] = _merge(found.get(known), kind)
    return found


def _text(kind: Any) -> str:
    if isinstance(kind, list):
        return f"array<{_text(kind[0])}>"
    if isinstance(kind, dict):
        fields = ",".join(f"`{name}`:{_text(each)}" for name, each in kind.items())
        return f"struct<{fields}>" if fields else "string"
    return kind or "string"
