"""The five codecs of a batch, inflated under a cap.

All of a batch's records are compressed as one block. The forms are the ones every client reads:
gzip with one member, snappy in xerial framing (raw snappy is read too), an LZ4 frame of
independent blocks, zstd frames.

Invariant  Inflating never holds more than about twice `limit` bytes, whatever a length field
           inside the data claims: the output buffer is sized by us, and a snappy claim is
           believed only as far as its input could possibly reach.
Invariant  Whatever `compress` writes, Java clients can read: no dependent LZ4 blocks.
"""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Final

import cramjam

from tidelog.records.corrupt import CorruptBatch, InflatesTooLarge

__all__ = [
    "CODEC_MASK",
    "CompressionType",
    "InflatesTooLarge",
    "codec_of",
    "compress",
    "decompress",
]

CODEC_MASK: Final = 0x07

_GZIP_WINDOW: Final = 31  # zlib's 15-bit window plus 16: gzip header and trailer
_GZIP_DEFAULT_LEVEL: Final = -1
_LZ4_DEFAULT_LEVEL: Final = 9
_ZSTD_DEFAULT_LEVEL: Final = 3
_LZ4_FLAGS_AT: Final = 4
_LZ4_INDEPENDENT_BLOCKS: Final = 0x20

_XERIAL_HEADER: Final = b"\x82SNAPPY\x00" + b"\x00\x00\x00\x01" * 2
_XERIAL_MAGIC: Final = _XERIAL_HEADER[:8]
_XERIAL_BLOCK: Final = 32 * 1024
_SNAPPY_BEST_RATIO: Final = 22  # a 3-byte copy element yields at most 64 bytes
_LENGTH: Final = Struct(">i")

_FIRST_GUESS: Final = 64 * 1024
_FIRST_RATIO: Final = 8
_GUESS_GROWTH: Final = 4
_OUTPUT_FULL: Final = "failed to write whole buffer"


class CompressionType(IntEnum):
    """How the records of a batch are compressed; the value is the code in its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4


_CODECS: Final = tuple(CompressionType)


def codec_of(attributes: int) -> CompressionType:
    """The codec named by a batch's attributes; CorruptBatch for the three unused codes."""
    code = attributes & CODEC_MASK
    if code >= len(_CODECS):
        raise CorruptBatch(f"there is no compression codec {code}")
    return _CODECS[code]


def compress(
    codec: CompressionType, data: bytes | bytearray | memoryview, level: int | None = None
) -> bytes:
    """The block as it stands in a batch. `level` None means the broker default of the codec."""
    if codec is CompressionType.NONE:
        return bytes(data)
    if codec is CompressionType.GZIP:
        chosen = _GZIP_DEFAULT_LEVEL if level is None else level
        gzip = zlib.compressobj(chosen, zlib.DEFLATED, _GZIP_WINDOW)
        return gzip.compress(data) + gzip.flush()
    if codec is CompressionType.SNAPPY:
        return _compress_xerial(memoryview(data))
    if codec is CompressionType.LZ4:
        chosen = _LZ4_DEFAULT_LEVEL if level is None else level
        lz4 = cramjam.lz4.Compressor(level=chosen, content_checksum=False, block_linked=False)
        lz4.compress(bytes(data))  # takes nothing but bytes
        return bytes(lz4.finish())
    chosen = _ZSTD_DEFAULT_LEVEL if level is None else level
    return bytes(cramjam.zstd.compress(data, level=chosen))


def decompress(codec: CompressionType, data: bytes | bytearray | memoryview, limit: int) -> bytes:
    """The records inside a block; CorruptBatch if malformed, InflatesTooLarge past `limit`."""
    if codec is CompressionType.NONE:
        if len(data) > limit:
            raise InflatesTooLarge(f"{len(data)} bytes of records, more than {limit}")
        return bytes(data)
    if codec is CompressionType.GZIP:
        return _decompress_gzip(data, limit)
    if codec is CompressionType.SNAPPY:
        return _decompress_snappy(memoryview(data), limit)
    if codec is CompressionType.LZ4 and (
        len(data) <= _LZ4_FLAGS_AT or not data[_LZ4_FLAGS_AT] & _LZ4_INDEPENDENT_BLOCKS
    ):
        raise CorruptBatch("lz4 blocks that depend on each other cannot be read by Java clients")
    return _decompress_frames(codec, data, limit)


def _decompress_gzip(data: bytes | bytearray | memoryview, limit: int) -> bytes:
    gzip = zlib.decompressobj(_GZIP_WINDOW)
    try:
        inflated = gzip.decompress(data, limit + 1)
    except zlib.error as problem:
        raise CorruptBatch(f"gzip: {problem}") from problem
    if len(inflated) > limit:
        raise InflatesTooLarge(f"gzip data inflates to more than {limit} bytes")
    if not gzip.eof:
        raise CorruptBatch("gzip: the data ends too early")
    if gzip.unused_data:
        raise CorruptBatch("gzip: bytes after the end of the data")
    return inflated


def _decompress_frames(
    codec: CompressionType, data: bytes | bytearray | memoryview, limit: int
) -> bytes:
    """Inflate into a buffer of our own size, a larger one when it was too small, up to `limit`."""
    inflate_into = cramjam.lz4.decompress_into if codec is CompressionType.LZ4 else _zstd_into
    size = min(limit, max(_FIRST_GUESS, _FIRST_RATIO * len(data)))
    while True:
        inflated = bytearray(size)
        try:
            used = inflate_into(data, inflated)
        except cramjam.DecompressionError as problem:
            if _OUTPUT_FULL not in str(problem):
                raise CorruptBatch(f"{codec.name.lower()}: {problem}") from problem
        else:
            return bytes(memoryview(inflated)[:used])
        if size >= limit:
            raise InflatesTooLarge(f"{codec.name.lower()} data inflates to more than {limit} bytes")
        size = min(limit, size * _GUESS_GROWTH)


_zstd_into = cramjam.zstd.decompress_into


def _compress_xerial(data: memoryview) -> bytes:
    parts = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK]))
        parts.append(_LENGTH.pack(len(block)))
        parts.append(block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if data[: len(_XERIAL_MAGIC)] != _XERIAL_MAGIC:
        return _decompress_snappy_block(data, limit)
    if len(data) < len(_XERIAL_HEADER):
        raise CorruptBatch("snappy: the data ends inside its header")
    parts = []
    total = 0
    position = len(_XERIAL_HEADER)
    while position < len(data):
        start = position + _LENGTH.size
        if start > len(data):
            raise CorruptBatch("snappy: the data ends inside a block length")
        (length,) = _LENGTH.unpack_from(data, position)
        position = start + length
        if length <= 0 or position > len(data):
            raise CorruptBatch(f"snappy: a block claims {length} bytes")
        part = _decompress_snappy_block(data[start:position], limit - total)
        total += len(part)
        parts.append(part)
    return b"".join(parts)


def _decompress_snappy_block(block: memoryview, limit: int) -> bytes:
    try:
        claimed = cramjam.snappy.decompress_raw_len(block)
        if claimed > len(block) * _SNAPPY_BEST_RATIO or claimed == 0:
            raise CorruptBatch(f"snappy: {len(block)} bytes claim to inflate to {claimed}")
        if claimed > limit:
            raise InflatesTooLarge("snappy data inflates to more than the allowed size")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as problem:
        raise CorruptBatch(f"snappy: {problem}") from problem
