from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.records.corrupt import CorruptBatch
from tidelog.records.varint import append_varint, read_varint, read_varlong


@given(st.integers(-(1 << 31), (1 << 31) - 1), st.binary(max_size=3))
def test_a_varint_reads_back_and_ends_where_it_was_written(number: int, after: bytes) -> None:
    data = bytearray()
    append_varint(data, number)

    assert read_varint(bytes(data) + after, 0) == (number, len(data))


@given(st.integers(-(1 << 63), (1 << 63) - 1), st.binary(max_size=3))
def test_a_varlong_reads_back_and_ends_where_it_was_written(number: int, before: bytes) -> None:
    data = bytearray(before)
    append_varint(data, number)

    assert read_varlong(bytes(data), len(before)) == (number, len(data))


@pytest.mark.parametrize(
    ("number", "encoded"),
    [(0, "00"), (-1, "01"), (1, "02"), (63, "7e"), (-64, "7f"), (64, "8001"), (300, "d804")],
)
def test_small_numbers_take_few_bytes_whatever_their_sign(number: int, encoded: str) -> None:
    data = bytearray()
    append_varint(data, number)

    assert data.hex() == encoded


@pytest.mark.parametrize("encoded", ["ffffffffff01", "ffffffffff", "8080808010", "ffffff"])
def test_a_varint_of_more_than_32_bits_or_without_end_is_corrupt(encoded: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varint(bytes.fromhex(encoded), 0)


@pytest.mark.parametrize("encoded", ["ff" * 10 + "01", "ff" * 9 + "02", "ff" * 4, ""])
def test_a_varlong_of_more_than_64_bits_or_without_end_is_corrupt(encoded: str) -> None:
    with pytest.raises(CorruptBatch):
        read_varlong(bytes.fromhex(encoded), 0)
