"""Bytes of records as a page shows them: text, JSON, Avro or what they are.

Invariant  Whatever the bytes are, what comes of them is JSON that a browser reads without loss; a
           record that JSON in a browser cannot hold (numbers beyond its own, a name twice in an
           object, nesting without end) is shown as the text that it is.
"""

from __future__ import annotations

import io
import json
import struct
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from math import isfinite
from typing import Any, Final, NoReturn

from tidelog.model.errors import ConfigError

_SHOWN_BYTES: Final = 65_536
_DEEPEST: Final = 64
"""So many levels of JSON a page unfolds."""
_EXACT: Final = 2**53 - 1
"""The largest integer below which a browser tells all others apart."""
_REGISTRY_HEADER: Final = struct.Struct(">bI")
"""A zero and a schema's number, which clients of schema registries put before the datum."""

Shown = dict[str, Any]
"""`text`, `json` or `base64`, and `bytes`: how long the whole was; `trouble` when it could not be
decoded as asked."""
Decoder = Callable[[bytes], Shown]


def decoder(form: str, schema: str = "") -> Decoder:
    """How the values of a topic are shown; `ConfigError` in words when that cannot be."""
    match form:
        case "auto":
            return show
        case "text":
            return _show_text
        case "base64":
            return _show_base64
        case "avro":
            return _avro(schema)
    raise ConfigError(f"there is no form {form!r}; auto, text, base64 and avro are known")


def show(content: bytes | None) -> Shown:
    """JSON where it is JSON, text where it is text."""
    if content is None:
        return {"bytes": None}
    if content[:1] in b"{[" and content and len(content) <= _SHOWN_BYTES:
        try:
            return {"json": _lossless(content.decode("utf-8")), "bytes": len(content)}
        except (ValueError, RecursionError):
            pass
    return _show_text(content)


def _lossless(text: str) -> Any:
    """The JSON value that a browser makes of a text; `ValueError` when it would be another one."""
    found = json.loads(
        text,
        parse_int=_exact_integer,
        parse_float=_exact_float,
        parse_constant=_refuse,
        object_pairs_hook=_unique,
    )
    level = [found]
    for _ in range(_DEEPEST):
        level = [
            part
            for each in level
            for part in (each.values() if isinstance(each, dict) else each)
            if isinstance(part, (dict, list))
        ]
        if not level:
            return found
    raise ValueError("too deep")


def _exact_integer(digits: str) -> int:
    found = int(digits)
    return found if abs(found) <= _EXACT and digits != "-0" else _refuse(digits)


def _exact_float(digits: str) -> float:
    found = float(digits)
    is_exact = isfinite(found) and Decimal(digits) == Decimal(repr(found))
    return found if is_exact and (found or digits[0] != "-") else _refuse(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    return found if len(found) == len(pairs) else _refuse("a name twice")


def _refuse(what: str) -> NoReturn:
    raise ValueError(f"{what} is more than a browser's JSON can hold")


def _show_text(content: bytes) -> Shown:
    """Text that may be cut in the middle of a character, if it is text at all."""
    shown = content[:_SHOWN_BYTES]
    try:
        text = shown.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(shown) - 3 or len(shown) == len(content):
            return _show_base64(content)
        text = shown[: error.start].decode("utf-8")
    return _show_base64(content) if "\0" in text else {"text": text, "bytes": len(content)}


def _show_base64(content: bytes) -> Shown:
    return {"base64": b64encode(content[:_SHOWN_BYTES]).decode(), "bytes": len(content)}


def _avro(schema: str) -> Decoder:
    try:
        from fastavro import parse_schema

        # The compiled reader takes the process down where this one raises: at deep nesting.
        from fastavro._read_py import schemaless_reader
    except ModuleNotFoundError as error:
        raise ConfigError("Avro needs fastavro: pip install fastavro") from error
    try:
        parsed = parse_schema(json.loads(schema))
        is_endless = _has_endless_arrays(parsed, {})
    except Exception as error:  # what it raises depends on what is wrong
        raise ConfigError(f"that is no Avro schema: {error}") from error
    if is_endless:
        raise ConfigError("an array of what takes no bytes may have no end: it cannot be shown")

    def read(content: bytes) -> Shown:
        if len(content) > _SHOWN_BYTES:
            return {**_show_base64(content), "trouble": f"longer than {_SHOWN_BYTES} bytes"}
        for skipped in _possible_headers(content):
            rest = io.BytesIO(content[skipped:])
            try:
                value = _plain(schemaless_reader(rest, parsed, None))
            except Exception:
                continue
            if rest.read(1) == b"":
                return {"json": value, "bytes": len(content)}
        return {**show(content), "trouble": "not a datum of this Avro schema"}

    return read


def _has_endless_arrays(schema: Any, named: dict[str, Any]) -> bool:
    """Whether a few bytes may stand for more items than fit anywhere."""
    if isinstance(schema, list):
        return any(_has_endless_arrays(each, named) for each in schema)
    if not isinstance(schema, dict):
        return False
    if "name" in schema:
        named[schema["name"]] = schema
    parts = [each["type"] for each in schema.get("fields", ())]
    parts += [schema[key] for key in ("items", "values") if key in schema]
    below = any(_has_endless_arrays(each, named) for each in parts)
    return below or ("items" in schema and _may_be_empty(schema["items"], named, ()))


def _may_be_empty(schema: Any, named: Mapping[str, Any], within: tuple[str, ...]) -> bool:
    """Whether a datum of it may take no byte at all."""
    if isinstance(schema, str):
        known = named.get(schema)
        return schema == "null" or (
            known is not None
            and (schema in within or _may_be_empty(known, named, (*within, schema)))
        )
    if not isinstance(schema, dict):
        return False  # a union says first which of its kinds follows
    if "fields" in schema:
        return all(_may_be_empty(each["type"], named, within) for each in schema["fields"])
    return schema.get("size") == 0 or _may_be_empty(schema.get("type"), named, within)


def _possible_headers(content: bytes) -> tuple[int, ...]:
    return (_REGISTRY_HEADER.size, 0) if content[:1] == b"\0" else (0,)


def _plain(value: Any, depth: int = 0) -> Any:
    """What a browser's JSON can hold of an Avro datum; numbers that it cannot are text."""
    if depth > _DEEPEST:
        raise ValueError("too deep")
    match value:
        case dict():
            return {str(key): _plain(each, depth + 1) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each, depth + 1) for each in value]
        case bytes():
            return value.decode("latin-1")
        case datetime() | date() | time():
            return value.isoformat()
        case int() if abs(value) > _EXACT:
            return str(value)
        case float() if not isfinite(value):
            return str(value)
        case None | bool() | int() | float() | str():
            return value
    return str(value)
