"""Values of partition columns: texts in a table's log, names of its directories.

Invariant  What is written can be read back by everybody. Empty text is null, as the log has it; a
           value that no directory can be named after keeps its row out of the table.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.pipelines.description.mistakes import PipelineTrouble

_NULL: Final = "__HIVE_DEFAULT_PARTITION__"
_MOST_BYTES: Final = 200
"""A file name has 255 at most, and the name of the column is part of it."""

_DAYS: Final = (-719_162, 2_932_896)
_MICROSECONDS: Final = (_DAYS[0] * 86_400_000_000, (_DAYS[1] + 1) * 86_400_000_000 - 1)
"""The years 1 to 9999, beyond which readers have no dates."""


def partition_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Partition values as a table's log writes them."""
    if pa.types.is_boolean(column.type):
        return pc.if_else(column, "true", "false")
    if pa.types.is_timestamp(column.type):
        return pc.strftime(column, "%Y-%m-%d %H:%M:%S")
    texts = column.cast(pa.string())
    return pc.if_else(pc.is_in(texts, pa.array(["", _NULL])), pa.scalar(None, pa.string()), texts)


def directory_of(values: Mapping[str, str | None]) -> str:
    """Where the files of a partition are, below the table."""
    return "/".join(
        f"{name}={_NULL if value is None else _quoted(value)}" for name, value in values.items()
    )


def misfits(rows: pa.Table, names: Sequence[str]) -> pa.ChunkedArray:
    """The reason why a row has no place in any partition; null where it has one."""
    found = pa.chunked_array([pa.nulls(rows.num_rows, pa.string())])
    for name in names:
        if pa.types.is_nested(rows[name].type):
            raise PipelineTrouble(f"{name} is {rows[name].type}: no table can be partitioned by it")
        reason = f"{name} cannot be a partition value of the table"
        found = pc.if_else(pc.and_(pc.is_null(found), _misfit(rows[name])), reason, found)
    return found


def _misfit(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_date32(kind):
        return _outside(column.cast(pa.int32()), _DAYS)
    if pa.types.is_timestamp(kind):
        return _outside(column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64()), _MICROSECONDS)
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        values = column.cast(pa.binary())
        unfit = [each for each in values.unique().to_pylist() if each and not _is_name(each)]
        return pc.is_in(values, pa.array(unfit, pa.binary()))
    return pa.chunked_array([pa.repeat(False, len(column))])


def _outside(numbers: pa.ChunkedArray, bounds: tuple[int, int]) -> pa.ChunkedArray:
    outside = pc.or_(pc.less(numbers, bounds[0]), pc.greater(numbers, bounds[1]))
    return pc.fill_null(outside, False)


def _is_name(value: bytes) -> bool:
    try:
        return len(_quoted(value.decode())) <= _MOST_BYTES
    except UnicodeDecodeError:
        return False


def _quoted(text: str) -> str:
    return quote(text, safe=" ")
