from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.serial.writers import write_unsigned_varint
from kio.static.primitive import uvarint as kio_uvarint

from tidelog.protocol.primitives import (
    ELEMENTS_MAX,
    MALFORMED,
    TAGS_MAX,
    MalformedRequest,
    compact_string_bytes,
    count_bytes,
    nullable_string_bytes,
    read_compact_nullable_string,
    read_compact_string,
    read_count,
    read_nullable_count,
    read_nullable_string,
    read_string,
    read_uuid,
    read_uvarint,
    skip_tags,
    spend,
    uvarint,
)


@given(value=st.integers(0, (1 << 32) - 1))
@settings(deadline=None)
def test_varints_are_kios_and_read_back(value: int) -> None:
    expected = io.BytesIO()
    write_unsigned_varint(expected, kio_uvarint(value))

    assert uvarint(value) == expected.getvalue()
    assert read_uvarint(b"-" + uvarint(value) + b"-", 1) == (value, 1 + len(uvarint(value)))


def test_a_varint_may_be_padded_but_not_longer_than_five_bytes() -> None:
    assert read_uvarint(b"\x81\x80\x80\x80\x00", 0) == (1, 5)
    assert read_uvarint(b"\xff\xff\xff\xff\x0f", 0) == ((1 << 32) - 1, 5)


@pytest.mark.parametrize(
    "overlong", [b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x00", b"\xff" * 11]
)
def test_a_varint_beyond_32_bits_is_refused(overlong: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_uvarint(overlong, 0)


@pytest.mark.parametrize("cut", [b"", b"\x80", b"\xff\xff\xff\xff"])
def test_a_varint_cut_short_is_refused(cut: bytes) -> None:
    with pytest.raises(MALFORMED):
        read_uvarint(cut, 0)


@given(text=st.none() | st.text(max_size=300))
@settings(deadline=None)
def test_strings_read_back_in_both_encodings(text: str | None) -> None:
    old, compact = nullable_string_bytes(text), compact_string_bytes(text)

    assert read_nullable_string(old, 0) == (text, len(old))
    assert read_compact_nullable_string(compact, 0) == (text, len(compact))


def test_a_text_too_long_for_the_old_encoding_is_cut_between_characters() -> None:
    encoded = nullable_string_bytes("é" * 20_000)

    assert read_string(encoded, 0) == ("é" * 16_383, 2 + 32_766)


def test_what_is_no_text_is_written_as_question_marks() -> None:
    assert nullable_string_bytes("a\udcffb") == b"\x00\x03a?b"
    assert compact_string_bytes("a\udcffb") == b"\x04a?b"


@pytest.mark.parametrize("null", [b"\xff\xff", b"\xff\xfe"])
def test_a_string_that_must_be_there_cannot_have_a_negative_length(null: bytes) -> None:
    with pytest.raises(MalformedRequest):
        read_string(null, 0)


def test_only_minus_one_is_null() -> None:
    with pytest.raises(MalformedRequest):
        read_nullable_string(b"\xff\xfe", 0)
    with pytest.raises(MalformedRequest):
        read_compact_string(b"\x00", 0)


def test_a_string_longer_than_the_rest_or_not_utf_8_is_refused() -> None:
    with pytest.raises(MALFORMED):
        read_string(b"\x00\x04abc", 0)
    with pytest.raises(MALFORMED):
        read_compact_string(b"\x02\xff", 0)
    with pytest.raises(MALFORMED):
        read_compact_string(b"\x04\xed\xa0\x80", 0)


@pytest.mark.parametrize("flexible", [True, False])
def test_an_array_cannot_have_more_elements_than_bytes_follow(flexible: bool) -> None:
    assert read_count(count_bytes(3, flexible) + b"abc", 0, flexible)[0] == 3
    assert read_nullable_count(count_bytes(-1, flexible), 0, flexible)[0] == -1
    with pytest.raises(MalformedRequest):
        read_count(count_bytes(-1, flexible), 0, flexible)
    with pytest.raises(MalformedRequest):
        read_count(count_bytes(4, flexible) + b"abc", 0, flexible)
    with pytest.raises(MalformedRequest):
        read_count(count_bytes((1 << 31) - 1, flexible), 0, flexible)


def test_an_array_length_below_minus_one_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        read_nullable_count(b"\xff\xff\xff\xfe", 0, False)


def test_a_request_spends_its_elements_and_no_more() -> None:
    assert spend(ELEMENTS_MAX, ELEMENTS_MAX) == 0
    with pytest.raises(MalformedRequest):
        spend(0, 1)


def test_unknown_tags_are_skipped() -> None:
    assert skip_tags(b"\x00rest", 0) == 1
    assert skip_tags(b"\x02\x05\x03abc\xff\x7f\x00rest", 0) == 9


@pytest.mark.parametrize(
    "tags", [b"", b"\x01", b"\x01\x05", b"\x01\x05\x04abc", bytes([TAGS_MAX + 1]) + b"\x00" * 99]
)
def test_tags_that_do_not_fit_are_refused(tags: bytes) -> None:
    with pytest.raises(MALFORMED):
        skip_tags(tags, 0)


def test_an_identity_cut_short_is_refused() -> None:
    with pytest.raises(MalformedRequest):
        read_uuid(bytes(15), 0)
