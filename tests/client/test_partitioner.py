"""Keys go where the Java client puts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.client.partitioner import murmur2, partition_for_key


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_the_hash_of_a_key_is_the_one_the_java_client_computes(key: bytes, hashed: int) -> None:
    assert murmur2(key) == hashed & 0xFFFFFFFF


@given(st.binary(), st.integers(min_value=1, max_value=1000))
def test_a_key_always_belongs_to_one_of_the_partitions(key: bytes, partitions: int) -> None:
    assert 0 <= partition_for_key(key, partitions) < partitions
