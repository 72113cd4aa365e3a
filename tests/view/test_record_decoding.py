"""Bytes of records as a page shows them."""

from __future__ import annotations

import io
import json
import math
from base64 import b64encode
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_writer

from tidelog.http.messages import json_response, strict_json
from tidelog.model.errors import ConfigError
from tidelog.view.record_decoding import decoder, show

LIST = {"type": "record", "name": "L", "fields": [{"name": "next", "type": ["null", "L"]}]}
ENDLESS = {"type": "record", "name": "R", "fields": [{"name": "itself", "type": "R"}]}
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


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN}',
        "[Infinity, -Infinity]",
        "[1e400]",
        "[1e-400]",
        "[-0]",
        "[-0.0]",
        "[0.12345678901234567890]",
        '{"id": 9007199254740993}',
        '{"id": -9007199254740992}',
        f"[{'9' * 5000}]",
        '{"a": 1, "a": 2}',
        "[" * 65 + "]" * 65,
        "[" * 30_000 + "]" * 30_000,
        '{"a":' * 10_000 + "1" + "}" * 10_000,
        "[" * 60_000,
    ],
    ids=lambda text: text[:30],
)
def test_json_that_a_browser_would_change_is_shown_as_the_text_that_it_is(text: str) -> None:
    assert show(text.encode()) == {"text": text, "bytes": len(text)}


@pytest.mark.parametrize(
    "text",
    [
        '{"id": 9007199254740991, "low": -9007199254740991}',
        "[0, 0.0, 1.10, 1e5, 1E+2, 0.1, -2.5e-300]",
        '{"half of a pair": "\\ud83d", "whole": "\\ud83d\\ude00"}',
        "[" * 64 + "]" * 64,
        '{"é": {"": []}}',
    ],
    ids=lambda text: text[:30],
)
def test_json_that_a_browser_reads_without_loss_is_shown_as_json(text: str) -> None:
    shown = show(text.encode())

    assert shown == {"json": json.loads(text), "bytes": len(text.encode())}
    answer = json_response(shown).body
    assert isinstance(answer, bytes)
    assert strict_json(answer.decode("utf-8"))["json"] == json.loads(text)


@pytest.mark.parametrize(
    "content",
    ['{"a": 1}'.encode("utf-16-le"), '{"a": 1}'.encode("utf-32"), b'{"a": "\xed\xa0\x80"}'],
    ids=["UTF-16", "UTF-32", "half of a pair"],
)
def test_json_that_is_not_utf_8_is_no_json(content: bytes) -> None:
    assert show(content) == {"base64": b64encode(content).decode(), "bytes": len(content)}


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


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("long", 2**53, "9007199254740992"),
        ("long", -(2**60), "-1152921504606846976"),
        ("long", 2**53 - 1, 2**53 - 1),
        ("double", math.inf, "inf"),
        ("double", 0.5, 0.5),
        ("bytes", b"\xff", "ÿ"),
        ("null", None, None),
    ],
)
def test_an_avro_datum_that_a_browser_would_change_is_text(
    kind: str, value: Any, shown: Any
) -> None:
    written = io.BytesIO()
    schemaless_writer(written, parse_schema(kind), value)

    assert decoder("avro", json.dumps(kind))(written.getvalue())["json"] == shown


def test_avro_that_is_too_deep_or_too_long_is_not_decoded() -> None:
    nested = decoder("avro", json.dumps(LIST))
    endless = decoder("avro", json.dumps(ENDLESS))

    assert "json" in nested(b"\x02" * 20 + b"\0")
    for depth in (100, 1000, 60_000):
        deep = nested(b"\x02" * depth + b"\0")
        assert "json" not in deep
        assert "trouble" in deep
    assert "longer than" in decoder("avro", '"bytes"')(b"x" * 100_000)["trouble"]
    assert "trouble" in endless(b"")


@pytest.mark.parametrize(
    "items",
    [
        "null",
        {"type": "record", "name": "E", "fields": []},
        {"type": "fixed", "name": "F", "size": 0},
    ],
    ids=str,
)
def test_an_array_that_a_few_bytes_could_make_endless_is_refused(items: Any) -> None:
    with pytest.raises(ConfigError, match="no end"):
        decoder("avro", json.dumps({"type": "array", "items": items}))
    within = {"type": "record", "name": "W", "fields": [
        {"name": "one", "type": items}, {"name": "all", "type": ["null", {"type": "array",
         "items": items["name"] if isinstance(items, dict) else items}]}]}  # fmt: skip
    with pytest.raises(ConfigError, match="no end"):
        decoder("avro", json.dumps(within))


def test_a_form_or_schema_that_cannot_be_is_refused_in_words() -> None:
    with pytest.raises(ConfigError, match="no Avro schema"):
        decoder("avro", "{}")
    with pytest.raises(ConfigError, match="no Avro schema"):
        decoder("avro", "[" * 100_000)
    with pytest.raises(ConfigError, match="auto, text, base64 and avro"):
        decoder("xml")
