from __future__ import annotations

from collections.abc import Sequence

import pytest

from tidelog.records.batch import HEADER_SIZE, BatchHeader, CorruptBatch, read_header, write_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType, InflatesTooLarge
from tidelog.records.record import records_of
from tidelog.records.varint import append_varint

THREE = [NewRecord(b"k", b"v%d" % i, 100 + i) for i in range(3)]


def rebuilt(batch: bytes | bytearray, **changed: int) -> bytearray:
    """The batch with other header fields and a checksum that is right."""
    copy = bytearray(batch)
    write_header(copy, read_header(batch)._replace(**changed))
    return copy


def raw_batch(bodies: Sequence[str], **changed: int) -> bytearray:
    """A batch of records given as hex, each put behind its length."""
    batch = bytearray(HEADER_SIZE)
    for body in bodies:
        append_varint(batch, len(bytes.fromhex(body)))
        batch += bytes.fromhex(body)
    count = len(bodies)
    header = BatchHeader(0, 0, 0, 2, 0, 0, count - 1, 1000, 1000, -1, -1, -1, count)
    write_header(batch, header._replace(**changed))
    return batch


def test_compaction_may_leave_gaps_between_offsets() -> None:
    batch = raw_batch(
        ["00 00 02 01 01 00", "00 02 0a 01 01 00"], base_offset=50, last_offset_delta=9
    )

    assert [(r.offset, r.timestamp) for r in records_of(batch)] == [(51, 1000), (55, 1001)]


def test_compaction_may_leave_a_batch_without_records() -> None:
    assert list(records_of(raw_batch([], last_offset_delta=4))) == []


def test_a_time_before_the_base_time_is_kept() -> None:
    batch = raw_batch(["00 01 00 01 01 00"])

    assert [record.timestamp for record in records_of(batch)] == [999]


def test_a_header_key_that_is_not_utf8_stays_readable() -> None:
    (record,) = records_of(raw_batch(["00 00 00 01 01 02 04 c328 01"]))

    assert record.headers == (("\ufffd(", None),)


def test_part_of_a_batch_is_corrupt() -> None:
    batch = build_batch(THREE)

    for wrong in (batch[:-1], batch + b"\x00"):
        with pytest.raises(CorruptBatch):
            records_of(wrong)


@pytest.mark.parametrize("count", [-1, 2, 4, (1 << 31) - 1])
def test_a_wrong_record_count_is_corrupt(count: int) -> None:
    with pytest.raises(CorruptBatch):
        list(records_of(rebuilt(build_batch(THREE), record_count=count)))


def test_an_offset_outside_the_batch_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="offset delta"):
        list(records_of(rebuilt(build_batch(THREE), last_offset_delta=1)))


def test_offsets_that_do_not_rise_are_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="offset delta"):
        list(records_of(raw_batch(["00 00 02 01 01 00", "00 00 02 01 01 00"])))


def test_a_codec_that_was_not_used_is_corrupt() -> None:
    for codec in (
        CompressionType.GZIP,
        CompressionType.SNAPPY,
        CompressionType.LZ4,
        CompressionType.ZSTD,
    ):
        with pytest.raises(CorruptBatch):
            records_of(rebuilt(build_batch(THREE), attributes=codec))


def test_inflating_stops_at_the_readers_limit() -> None:
    batch = build_batch([NewRecord(None, bytes(10_000), 0)], codec=CompressionType.ZSTD)

    with pytest.raises(InflatesTooLarge):
        records_of(batch, inflate_limit=5_000)


@pytest.mark.parametrize(
    "body",
    [
        "00 00 00 01 01",  # header count missing
        "00 00 00 01 01 00 00",  # one byte too many
        "00 00 00 03 01 00",  # key of length -2
        "00 00 00 01 03 00",  # value of length -2
        "00 00 00 04 61 01 00",  # key longer than what is there
        "00 00 00 01 01 01",  # -1 headers
        "00 00 00 01 01 02 01 01",  # header without key
        "00 00 00 01 01 02 00 03",  # header value of length -2
        "00 00 00 01 01 fe ff ff ff 0f",  # 2^31 - 1 headers
        "00 ff ff ff ff ff ff ff ff ff 7f 00 01 01 00",  # timestamp of more than 64 bits
        "00 00 ff ff ff ff 1f 01 01 00",  # offset delta of more than 32 bits
        "00",
        "",
    ],
)
def test_a_malformed_record_is_corrupt(body: str) -> None:
    with pytest.raises(CorruptBatch):
        list(records_of(raw_batch([body])))


@pytest.mark.parametrize("length", [-1, -(1 << 31), 5, 7, (1 << 31) - 1])
def test_a_record_length_that_is_not_the_records_is_corrupt(length: int) -> None:
    batch = bytearray(HEADER_SIZE)
    append_varint(batch, length)
    batch += bytes.fromhex("00 00 00 01 01 00")
    write_header(batch, BatchHeader(0, 0, 0, 2, 0, 0, 0, 0, 0, -1, -1, -1, 1))

    with pytest.raises(CorruptBatch):
        list(records_of(batch))


def test_a_last_header_that_ends_after_the_data_is_corrupt_before_it_is_read() -> None:
    whole = build_batch([NewRecord(b"k", b"v", 0, (("h", b"last"),))])
    cut = whole[:-1]
    write_header(cut, read_header(whole))

    with pytest.raises(CorruptBatch):
        next(records_of(cut))
