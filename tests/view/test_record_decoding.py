"""Bytes of records as a page shows them."""

from __future__ import annotations

import io
import json

import pytest
from fastavro import parse_schema, schemaless_writer

from tidelog.model.errors import ConfigError
from tidelog.view.record_decoding import decoder, show

SCHEMA = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def avro(order: int) -> bytes:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(SCHEMA), {"id": order})
    return written.getvalue()


def test_json_is_shown_as_json_and_text_as_text() -> None:
    assert show(b'{"a": 1}') == {"json": {"a": 1}, "bytes": 8}
    assert show(b"{not json") == {"text": "{not json", "bytes": 9}
    assert show(b"") == {"text": "", "bytes": 0}
    assert show(None) == {"bytes": None}


def test_what_is_no_text_is_shown_in_base64() -> None:
    assert show(b"\xff\xfe") == {"base64": "//4=", "bytes": 2}
    assert show(b"a\0b") == {"base64": "YQBi", "bytes": 3}


def test_long_text_is_cut_between_characters_and_says_how_long_it_was() -> None:
    long = ("é" * 40_000).encode()

    shown = show(b"x" + long)

    assert shown["bytes"] == 80_001
    assert shown["text"] == "x" + "é" * 32_767


def test_avro_is_read_with_the_schema_that_is_given() -> None:
    read = decoder("avro", json.dumps(SCHEMA))

    assert read(avro(42)) == {"json": {"id": 42}, "bytes": 1}
    assert read(b"\0\0\0\0\x07" + avro(42))["json"] == {"id": 42}
    assert read(b"no datum")["trouble"] == "not a datum of this Avro schema"


def test_a_form_or_schema_that_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="no Avro schema"):
        decoder("avro", "{}")
    with pytest.raises(ConfigError, match="auto, text, base64 and avro"):
        decoder("xml")
