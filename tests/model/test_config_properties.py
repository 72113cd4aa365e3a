"""Java's .properties text form."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import ConfigError
from tidelog.model.settings.properties import parse_properties, write_properties

TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=30)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb: 2\nc 3\n", {"a": "1", "b": "2", "c": "3"}),
        ("# comment\n! another\n\n   \n  a = b c \n", {"a": "b c "}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=one,\\\n   two,\\\n\tthree\n", {"a": "one,two,three"}),
        ("a=kept\\\\\nb=2", {"a": "kept\\", "b": "2"}),
        ("a=1\\\n# not a comment\n", {"a": "1# not a comment"}),
        ("path\\ with\\:odd\\=key=v", {"path with:odd=key": "v"}),
        ("a=\\t\\n\\r\\f\\q\\u00e9\\uD83D\\uDE00", {"a": "\t\n\r\fqé😀"}),
        ("a", {"a": ""}),
        ("a=", {"a": ""}),
        ("=v", {"": "v"}),
        ("a==b", {"a": "=b"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=1\\", {"a": "1"}),
        ("", {}),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: dict[str, str]) -> None:
    assert parse_properties(text) == expected


def test_a_broken_unicode_escape_is_refused() -> None:
    with pytest.raises(ConfigError, match="four hex digits"):
        parse_properties("a=\\u12")


@settings(max_examples=examples(200), deadline=None)
@given(st.dictionaries(TEXT, TEXT, max_size=4))
def test_what_is_written_reads_back_the_same(values: dict[str, str]) -> None:
    assert parse_properties(write_properties(values)) == values
