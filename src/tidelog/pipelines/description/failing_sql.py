"""SQL that raises an error for some records, where other SQL gives null.

With ANSI mode off Spark gives null for a cast, a division or an index that does not work out. Some
functions raise errors even so, and one such record would stop a flow for good. Which ones was tried
with Spark 4.2, with values that do not fit; for each there is another way.

Invariant  What passes here fails for no record, or for all of them, which the first run shows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlglot import exp

_PYTHON: Final = "a python step"
_ZONE: Final = "a zone for all records"
_FORMAT: Final = "a format for all records"
_PATTERN: Final = "a pattern for all records, or contains, startswith, endswith"

_INSTEAD: Final = {
    "raise_error": "a rule",
    "assert_true": "a rule",
    "parse_json": "try_parse_json",
    "variant_get": "try_variant_get",
    "to_number": "try_to_number",
    "to_binary": "try_to_binary",
    "aes_decrypt": "try_aes_decrypt",
    "aes_encrypt": _PYTHON,
    "encode": "cast(... as binary)",
    "url_decode": "try_url_decode",
    "validate_utf8": "try_validate_utf8",
    "reflect": "try_reflect",
    "java_method": "try_reflect",
    "timestamp_seconds": "cast(... as timestamp)",
    "timestamp_millis": "cast(... / 1000 as timestamp)",
    "make_dt_interval": "try_make_interval",
    "make_ym_interval": "try_make_interval",
    "map_from_arrays": "map with keys that are written out",
    "map_from_entries": "map with keys that are written out",
    "transform_keys": _PYTHON,
}
_FAMILIES: Final = ("xpath", "hll_", "kll_", "theta_", "tuple_", "st_", "vector_")
"""They read bytes or text of their own formats, and nothing else."""

_WRITTEN_OUT: Final = {
    "element_at": ((1,), "get, which counts from 0, or map[key]"),
    "try_element_at": ((1,), "get, which counts from 0, or map[key]"),
    "split_part": ((2,), "get(split(...), index), which counts from 0"),
    "slice": ((1, 2), "filter"),
    "array_insert": ((1,), "array_append or array_prepend"),
    "array_repeat": ((1,), _PYTHON),
    "sequence": ((0, 1, 2), _PYTHON),
    "bit_get": ((1,), "shiftright(...) & 1"),
    "getbit": ((1,), "shiftright(...) & 1"),
    "add_months": ((1,), "try_add"),
    "rlike": ((1,), _PATTERN),
    "regexp": ((1,), _PATTERN),
    "regexp_like": ((1,), _PATTERN),
    "regexp_count": ((1,), _PATTERN),
    "regexp_extract": ((1, 2), _PATTERN),
    "regexp_extract_all": ((1, 2), _PATTERN),
    "regexp_instr": ((1,), _PATTERN),
    "regexp_replace": ((1, 2), "replace"),
    "regexp_substr": ((1,), _PATTERN),
    "split": ((1,), _PATTERN),
    "like": ((1, 2), _PATTERN),
    "ilike": ((1, 2), _PATTERN),
    "format_string": ((0,), _FORMAT),
    "printf": ((0,), _FORMAT),
    "date_format": ((1,), _FORMAT),
    "from_unixtime": ((1,), _FORMAT),
    "to_date": ((1,), _FORMAT),
    "to_timestamp": ((1,), _FORMAT),
    "to_timestamp_ltz": ((1,), _FORMAT),
    "to_timestamp_ntz": ((1,), _FORMAT),
    "to_unix_timestamp": ((1,), _FORMAT),
    "try_to_date": ((1,), _FORMAT),
    "try_to_timestamp": ((1,), _FORMAT),
    "unix_timestamp": ((1,), _FORMAT),
    "to_char": ((1,), _FORMAT),
    "to_varchar": ((1,), _FORMAT),
    "from_utc_timestamp": ((1,), _ZONE),
    "to_utc_timestamp": ((1,), _ZONE),
}
"""Arguments that must not come from a record, and what helps when they have to."""

_COUNTS_FROM_ONE: Final = ("element_at", "try_element_at", "split_part", "slice", "array_insert")
_UNITS_FIRST: Final = ("dateadd", "date_add", "timestampadd")


def failing_parts(parsed: exp.Expr) -> Iterator[str]:
    """What would stop a pipeline, in words; functions are known by their names in `parsed`."""
    for node in parsed.walk():
        match node:
            case exp.Anonymous():
                yield from _failing_call(node.name.lower(), node.expressions)
            case exp.RegexpLike() | exp.Like() | exp.ILike():
                if not _is_written_out(node.expression):
                    yield _comes_from_a_record(node.sql("spark"), "the pattern", _PATTERN)
            case exp.Mul() | exp.Div():
                factors = (node.this.unnest(), node.expression.unnest())
                has_interval = any(isinstance(each, exp.Interval) for each in factors)
                if has_interval and not _is_written_out(node):
                    yield _fails(node.sql("spark"), "try_multiply or try_divide")
            case exp.Cast() | exp.TryCast():
                if isinstance(node.to.this, exp.Interval):
                    yield _fails(node.sql("spark"), "try_make_interval")
            case _:
                pass


def _failing_call(name: str, arguments: list[exp.Expr]) -> Iterator[str]:
    instead = _PYTHON if name.startswith(_FAMILIES) else _INSTEAD.get(name)
    if name == "decode" and len(arguments) == 2:
        instead = "cast(... as string) and is_valid_utf8"
    if name in ("from_json", "from_csv", "from_xml") and _fails_fast(arguments):
        instead = "another mode"
    if instead is not None:
        yield _fails(name, instead)
        return
    positions, instead = _WRITTEN_OUT.get(name, ((), ""))
    if name in _UNITS_FIRST and len(arguments) == 3:
        positions, instead = (1,), "try_add"
    if name == "convert_timezone":
        positions, instead = tuple(range(len(arguments) - 1)), _ZONE
    if name == "map":
        positions, instead = tuple(range(0, len(arguments), 2)), "a struct"
    for position in positions:
        if position < len(arguments) and not _is_written_out(arguments[position]):
            yield _comes_from_a_record(name, f"argument {position + 1}", instead)
    if name in _COUNTS_FROM_ONE and any(_is_zero(arguments, each) for each in positions[:1]):
        yield f"{name} counts from 1: there is no index 0"


def _fails(what: str, instead: str) -> str:
    return f"{what} fails for some records, which would stop the pipeline: use {instead}"


def _comes_from_a_record(what: str, part: str, instead: str) -> str:
    return (
        f"{part} of {what} comes from a record, and some values would stop the pipeline: "
        f"use {instead}"
    )


def _is_written_out(argument: exp.Expr) -> bool:
    return argument.find(exp.Column, exp.Identifier) is None


def _is_zero(arguments: list[exp.Expr], position: int) -> bool:
    return position < len(arguments) and arguments[position].sql() == "0"


def _fails_fast(arguments: list[exp.Expr]) -> bool:
    texts = (each.this for argument in arguments for each in argument.find_all(exp.Literal))
    return any(str(each).upper() == "FAILFAST" for each in texts)
