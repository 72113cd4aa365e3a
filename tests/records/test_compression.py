from __future__ import annotations

import gzip
import subprocess
import sys
import zlib

import cramjam
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.records.compression import CompressionType, compress, decompress
from tidelog.records.corrupt import CorruptBatch, InflatesTooLarge

COMPRESSED = [codec for codec in CompressionType if codec is not CompressionType.NONE]
TEXT = b"the quick brown fox jumps over the lazy dog " * 4000


@settings(max_examples=examples(60), deadline=None)
@given(
    st.sampled_from(CompressionType),
    st.one_of(
        st.binary(min_size=1, max_size=2000),
        st.builds(
            lambda part, n: part * n, st.binary(min_size=1, max_size=30), st.integers(1, 9999)
        ),
    ),
)
def test_data_comes_back_from_every_codec(codec: CompressionType, data: bytes) -> None:
    assert decompress(codec, compress(codec, data), len(data)) == data


@pytest.mark.parametrize("codec", CompressionType)
def test_any_kind_of_buffer_can_be_compressed_and_inflated(codec: CompressionType) -> None:
    block = compress(codec, memoryview(bytearray(TEXT)))

    assert compress(codec, bytearray(TEXT)) == block
    assert decompress(codec, memoryview(bytearray(block)), 1 << 20) == TEXT


@pytest.mark.parametrize("codec", CompressionType)
def test_the_limit_is_the_last_size_that_inflates(codec: CompressionType) -> None:
    block = compress(codec, TEXT)

    assert decompress(codec, block, len(TEXT)) == TEXT
    with pytest.raises(InflatesTooLarge):
        decompress(codec, block, len(TEXT) - 1)


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_ratio_far_above_the_first_guess_still_inflates(codec: CompressionType) -> None:
    zeroes = bytes(5_000_000)

    assert decompress(codec, compress(codec, zeroes), len(zeroes)) == zeroes


@pytest.mark.parametrize("codec", COMPRESSED)
def test_a_block_cut_short_anywhere_is_corrupt(codec: CompressionType) -> None:
    block = compress(codec, bytes(range(256)) * 20)

    for cut in {0, 1, 3, 7, 15, 17, 20, len(block) // 2, len(block) - 1}:
        with pytest.raises(CorruptBatch):
            decompress(codec, block[:cut], 1 << 20)


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_bytes_after_the_end_are_corrupt(codec: CompressionType) -> None:
    with pytest.raises(CorruptBatch):
        decompress(codec, compress(codec, TEXT) + b"more", 1 << 20)


@pytest.mark.parametrize("codec", COMPRESSED)
@settings(max_examples=examples(60), deadline=None)
@given(data=st.data())
def test_damaged_blocks_inflate_to_something_or_are_corrupt(
    codec: CompressionType, data: st.DataObject
) -> None:
    block = bytearray(compress(codec, TEXT[:700]))
    for _ in range(data.draw(st.integers(1, 3))):
        block[data.draw(st.integers(0, len(block) - 1))] = data.draw(st.integers(0, 255))

    try:
        inflated = decompress(codec, block, 10_000)
    except CorruptBatch:
        return
    assert len(inflated) <= 10_000


def test_only_one_gzip_member_is_read() -> None:
    with pytest.raises(CorruptBatch):
        decompress(CompressionType.GZIP, gzip.compress(TEXT) + gzip.compress(TEXT), 1 << 20)


def test_levels_reach_the_codec() -> None:
    for codec, low, high in (
        (CompressionType.GZIP, 1, 9),
        (CompressionType.LZ4, 1, 12),
        (CompressionType.ZSTD, 1, 19),
    ):
        assert compress(codec, TEXT, high) != compress(codec, TEXT, low)
        assert decompress(codec, compress(codec, TEXT, high), len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("codec", "default"),
    [(CompressionType.GZIP, 6), (CompressionType.LZ4, 9), (CompressionType.ZSTD, 3)],
)
def test_without_a_level_the_brokers_default_is_used(codec: CompressionType, default: int) -> None:
    assert compress(codec, TEXT) == compress(codec, TEXT, default)


def test_gzip_is_a_member_that_gzip_reads() -> None:
    assert gzip.decompress(compress(CompressionType.GZIP, TEXT)) == TEXT


def test_snappy_is_written_in_xerial_framing_of_32_kib_blocks() -> None:
    block = compress(CompressionType.SNAPPY, TEXT)

    assert block[:16] == b"\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01"
    length = int.from_bytes(block[16:20], "big")
    assert bytes(cramjam.snappy.decompress_raw(block[20 : 20 + length])) == TEXT[: 32 * 1024]


def test_raw_snappy_is_read_too() -> None:
    raw = bytes(cramjam.snappy.compress_raw(TEXT))

    assert decompress(CompressionType.SNAPPY, raw, 1 << 20) == TEXT


def test_an_lz4_frame_has_independent_blocks() -> None:
    block = compress(CompressionType.LZ4, TEXT)

    assert block[:4] == b"\x04\x22\x4d\x18"
    assert block[4] & 0x20


def test_lz4_blocks_that_depend_on_each_other_are_refused_as_java_clients_do() -> None:
    linked = bytes(cramjam.lz4.compress(TEXT))
    assert not linked[4] & 0x20

    with pytest.raises(CorruptBatch, match="depend"):
        decompress(CompressionType.LZ4, linked, 1 << 20)


@pytest.mark.parametrize("claim", [-1, 0, 1 << 30, (1 << 31) - 1, -(1 << 31)])
def test_a_xerial_block_may_not_claim_more_than_is_there(claim: int) -> None:
    header = compress(CompressionType.SNAPPY, b"")
    assert len(header) == 16

    with pytest.raises(CorruptBatch):
        decompress(
            CompressionType.SNAPPY,
            header + claim.to_bytes(4, "big", signed=True) + b"\x04\x0cabcd",
            1 << 40,
        )


@pytest.mark.parametrize("claim", ["ffffffff0f", "ffffff7f", "8080808001", "00"])
def test_a_snappy_length_beyond_its_input_is_not_believed(claim: str) -> None:
    with pytest.raises(CorruptBatch, match="snappy"):
        decompress(CompressionType.SNAPPY, bytes.fromhex(claim) + b"\x0cabcd", 1 << 40)


def test_a_bomb_never_takes_much_more_memory_than_the_limit() -> None:
    """In a process of its own, because only a fresh one has a low high-water mark."""
    program = """
import resource, sys, zlib, cramjam
from tidelog.records.compression import CompressionType, decompress
from tidelog.records.corrupt import CorruptBatch, InflatesTooLarge
part = bytes(1 << 20)
gzip = zlib.compressobj(9, zlib.DEFLATED, 31)
bomb = b"".join(gzip.compress(part) for _ in range(300)) + gzip.flush()
rle = bytes.fromhex("28b52ffd" "0060") + b"\\x02\\x00\\x10\\x00" * 60_000 + b"\\x03\\x00\\x10\\x00"
lz4 = cramjam.lz4.Compressor(level=1, content_checksum=False, block_linked=False)
for _ in range(100):
    lz4.compress(part)
frame = bytes(lz4.finish())
snappy = bytes(cramjam.snappy.compress_raw(bytes(30 << 20)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
bombs = {
    CompressionType.GZIP: bomb,
    CompressionType.ZSTD: rle,
    CompressionType.LZ4: frame,
    CompressionType.SNAPPY: snappy,
}
for codec, data in bombs.items():
    try:
        decompress(codec, data, 4 << 20)
    except InflatesTooLarge:
        pass
    else:
        sys.exit(f"{codec.name} did inflate")
unit = 1 if sys.platform == "darwin" else 1024
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )

    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < 16 << 20


def test_a_zlib_stream_without_gzip_header_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="gzip"):
        decompress(CompressionType.GZIP, zlib.compress(TEXT), 1 << 20)
