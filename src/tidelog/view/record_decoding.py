"""Bytes of records as a page shows them: text, JSON, Avro or what they are."""

from __future__ import annotations

import io
import json
import struct
from base64 import b64encode
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from tidelog.model.errors import ConfigError

_SHOWN_BYTES: Final = 65_536
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
            return {"json": json.loads(content), "bytes": len(content)}
        except ValueError:
            pass
    return _show_text(content)


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
        from fastavro import parse_schema, schemaless_reader
    except ModuleNotFoundError as error:
        raise ConfigError("Avro needs fastavro: pip install fastavro") from error
    try:
        parsed = parse_schema(json.loads(schema))
    except Exception as error:  # what it raises depends on what is wrong
        raise ConfigError(f"that is no Avro schema: {error}") from error

    def read(content: bytes) -> Shown:
        for skipped in _possible_headers(content):
            rest = io.BytesIO(content[skipped:])
            try:
                value = schemaless_reader(rest, parsed, None)
            except Exception:
                continue
            if rest.read(1) == b"":
                return {"json": _plain(value), "bytes": len(content)}
        return {**show(content), "trouble": "not a datum of this Avro schema"}

    return read


def _possible_headers(content: bytes) -> tuple[int, ...]:
    return (_REGISTRY_HEADER.size, 0) if content[:1] == b"\0" else (0,)


def _plain(value: Any) -> Any:
    """What JSON can hold of an Avro datum."""
    match value:
        case dict():
            return {str(key): _plain(each) for key, each in value.items()}
        case list() | tuple():
            return [_plain(each) for each in value]
        case bytes():
            return value.decode("latin-1")
        case datetime() | date() | time():
            return value.isoformat()
        case Decimal() | UUID():
            return str(value)
    return value
