"""The record batch, format version 2: the unit of disk, wire and replication.

 0 base offset i64      21 attributes i16           43 producer id i64
 8 batch length i32     23 last offset delta i32    51 producer epoch i16
12 leader epoch i32     27 base timestamp i64       53 base sequence i32
16 magic i8             35 max timestamp i64        57 record count i32
17 crc u32                                          61 records

Invariant  The checksum covers byte 21 to the end, so base offset and leader epoch can be assigned
           in place; everything else changes only together with the checksum.
Invariant  A batch occupies `last_offset_delta + 1` offsets, also when compaction left fewer
           records in it, or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct
from typing import Final, NamedTuple

from crc32c import crc32c

from tidelog.records.compression import CODEC_MASK, CompressionType, codec_of
from tidelog.records.corrupt import CorruptBatch

__all__ = [
    "ATTRIBUTES_AT",
    "CHECKED_FROM",
    "CODEC_MASK",
    "CONTROL",
    "DELETE_HORIZON",
    "HEADER_SIZE",
    "LENGTH_AT",
    "LOG_APPEND_TIME",
    "MAGIC",
    "MAGIC_AT",
    "NO_PRODUCER_ID",
    "NO_SEQUENCE",
    "NO_TIMESTAMP",
    "PREFIX_SIZE",
    "TRANSACTIONAL",
    "BatchHeader",
    "CorruptBatch",
    "assign",
    "crc_matches",
    "read_header",
    "restamp",
    "whole_batches",
    "write_header",
]

HEADER_SIZE: Final = 61
PREFIX_SIZE: Final = 12  # base offset and length; the length field counts what follows it
LENGTH_AT: Final = 8
MAGIC_AT: Final = 16
CHECKED_FROM: Final = 21
ATTRIBUTES_AT: Final = 22  # their lower byte, which holds all that is defined
MAGIC: Final = 2

LOG_APPEND_TIME: Final = 0x08
TRANSACTIONAL: Final = 0x10
CONTROL: Final = 0x20
DELETE_HORIZON: Final = 0x40

NO_PRODUCER_ID: Final = -1
NO_SEQUENCE: Final = -1
NO_TIMESTAMP: Final = -1
_SEQUENCE_MASK: Final = 0x7FFFFFFF

_HEADER: Final = Struct(">qiibIhiqqqhii")
_OFFSET: Final = Struct(">q")
_EPOCH: Final = Struct(">i")
_EPOCH_AT: Final = 12
_CRC: Final = Struct(">I")
_CRC_AT: Final = 17
_ATTRIBUTES: Final = Struct(">h")
_MAX_TIMESTAMP: Final = Struct(">q")
_MAX_TIMESTAMP_AT: Final = 35


class BatchHeader(NamedTuple):
    """The 61 bytes before the records, in their order."""

    base_offset: int
    batch_length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """Bytes of the whole batch."""
        return PREFIX_SIZE + self.batch_length

    @property
    def last_offset(self) -> int:
        """The offset of the last record, or of where it was before compaction."""
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        """The first offset after this batch."""
        return self.base_offset + self.last_offset_delta + 1

    @property
    def codec(self) -> CompressionType:
        """How the records are compressed; CorruptBatch if the code is not one of ours."""
        return codec_of(self.attributes)

    @property
    def is_log_append_time(self) -> bool:
        """Every record carries the broker's time, `max_timestamp`, instead of its own."""
        return self.attributes & LOG_APPEND_TIME != 0

    @property
    def is_transactional(self) -> bool:
        """Visible to read-committed consumers only once its transaction is committed."""
        return self.attributes & TRANSACTIONAL != 0

    @property
    def is_control(self) -> bool:
        """Holds a marker for brokers and consumers instead of data."""
        return self.attributes & CONTROL != 0

    @property
    def has_delete_horizon(self) -> bool:
        """`base_timestamp` tells when tombstones in here may go."""
        return self.attributes & DELETE_HORIZON != 0

    @property
    def has_producer_id(self) -> bool:
        """Written by an idempotent or transactional producer."""
        return self.producer_id > NO_PRODUCER_ID

    @property
    def last_sequence(self) -> int:
        """The sequence number of the last record; numbers go from 2^31 - 1 back to 0."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & _SEQUENCE_MASK


def read_header(buffer: bytes | bytearray | memoryview, position: int = 0) -> BatchHeader:
    """The header at `position`; CorruptBatch unless 61 bytes of format version 2 stand there."""
    if len(buffer) - position < HEADER_SIZE or position < 0:
        raise CorruptBatch(f"{len(buffer) - position} bytes are no batch header")
    header = BatchHeader._make(_HEADER.unpack_from(buffer, position))
    if header.batch_length < HEADER_SIZE - PREFIX_SIZE:
        raise CorruptBatch(f"batch length {header.batch_length} is shorter than a header")
    if header.magic != MAGIC:
        raise CorruptBatch(f"batch format version {header.magic}, not {MAGIC}")
    return header


def crc_matches(batch: bytes | bytearray | memoryview) -> bool:
    """Whether the checksum of one whole batch is that of its bytes."""
    (stored,) = _CRC.unpack_from(batch, _CRC_AT)
    return bool(crc32c(memoryview(batch)[CHECKED_FROM:]) == stored)


def assign(batch: bytearray | memoryview, base_offset: int, leader_epoch: int) -> None:
    """Write the offset of the first record and the leader's epoch into a batch, in place."""
    _OFFSET.pack_into(batch, 0, base_offset)
    _EPOCH.pack_into(batch, _EPOCH_AT, leader_epoch)


def restamp(
    batch: bytearray | memoryview, header: BatchHeader, attributes: int, max_timestamp: int
) -> BatchHeader:
    """Change attributes and greatest timestamp in place, checksum included."""
    _ATTRIBUTES.pack_into(batch, CHECKED_FROM, attributes)
    _MAX_TIMESTAMP.pack_into(batch, _MAX_TIMESTAMP_AT, max_timestamp)
    crc = _seal(batch)
    return header._replace(attributes=attributes, max_timestamp=max_timestamp, crc=crc)


def write_header(batch: bytearray, header: BatchHeader) -> BatchHeader:
    """Fill in the first 61 bytes of a batch that already holds its records, length and checksum
    included; the header as written."""
    header = header._replace(batch_length=len(batch) - PREFIX_SIZE, magic=MAGIC)
    _HEADER.pack_into(batch, 0, *header)
    return header._replace(crc=_seal(batch))


def _seal(batch: bytearray | memoryview) -> int:
    crc = crc32c(memoryview(batch)[CHECKED_FROM:])
    _CRC.pack_into(batch, _CRC_AT, crc)
    return crc


def whole_batches(
    buffer: bytes | bytearray | memoryview,
) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The complete batches in a buffer, in order; a partial one at its end is left out.

    Raises CorruptBatch at a header that cannot be one. Checksums are the caller's business.
    """
    view = memoryview(buffer)
    position = 0
    while len(view) - position >= HEADER_SIZE:
        header = read_header(view, position)
        end = position + header.size
        if end > len(view):
            return
        yield header, view[position:end]
        position = end
