from __future__ import annotations

import pytest

from tidelog.records.batch import (
    HEADER_SIZE,
    BatchHeader,
    CorruptBatch,
    assign,
    crc_matches,
    read_header,
    restamp,
    whole_batches,
)
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType

THREE = [NewRecord(b"k", b"v%d" % i, 1_700_000_000_000 + i) for i in range(3)]


def header(**changed: int) -> BatchHeader:
    return read_header(build_batch(THREE))._replace(**changed)


def test_a_header_holds_every_field_in_its_place() -> None:
    batch = build_batch(
        THREE,
        base_offset=40,
        leader_epoch=5,
        codec=CompressionType.LZ4,
        producer_id=7,
        producer_epoch=2,
        base_sequence=11,
        transactional=True,
    )

    read = read_header(batch)

    assert read == (
        40,
        len(batch) - 12,
        5,
        2,
        read.crc,
        0x13,
        2,
        1_700_000_000_000,
        1_700_000_000_002,
        7,
        2,
        11,
        3,
    )
    assert (read.size, read.last_offset, read.next_offset) == (len(batch), 42, 43)
    assert read.codec is CompressionType.LZ4
    assert read.is_transactional
    assert read.has_producer_id
    assert not read.is_control
    assert not read.is_log_append_time
    assert not read.has_delete_horizon


def test_each_attribute_bit_has_its_meaning() -> None:
    assert header(attributes=0x08).is_log_append_time
    assert header(attributes=0x10).is_transactional
    assert header(attributes=0x20).is_control
    assert header(attributes=0x40).has_delete_horizon


def test_a_codec_that_does_not_exist_is_corrupt() -> None:
    with pytest.raises(CorruptBatch, match="codec 5"):
        _ = header(attributes=5).codec


def test_sequence_numbers_go_on_at_zero_after_the_greatest() -> None:
    assert header(base_sequence=(1 << 31) - 2, last_offset_delta=1).last_sequence == (1 << 31) - 1
    assert header(base_sequence=(1 << 31) - 2, last_offset_delta=2).last_sequence == 0
    assert header(base_sequence=-1, last_offset_delta=2).last_sequence == -1


def test_fewer_bytes_than_a_header_are_corrupt() -> None:
    batch = build_batch(THREE)

    with pytest.raises(CorruptBatch):
        read_header(batch[: HEADER_SIZE - 1])
    with pytest.raises(CorruptBatch):
        read_header(batch, len(batch) - HEADER_SIZE + 1)


def test_a_batch_length_shorter_than_the_header_is_corrupt() -> None:
    batch = build_batch(THREE)
    batch[8:12] = (48).to_bytes(4, "big")

    with pytest.raises(CorruptBatch, match="48"):
        read_header(batch)


def test_another_format_version_is_corrupt() -> None:
    batch = build_batch(THREE)
    batch[16] = 1

    with pytest.raises(CorruptBatch, match="version 1"):
        read_header(batch)


def test_zeroes_are_no_batch() -> None:
    with pytest.raises(CorruptBatch):
        read_header(bytes(100))


def test_the_checksum_covers_attributes_to_end_and_nothing_before() -> None:
    batch = build_batch(THREE)

    for at in range(len(batch)):
        changed = bytearray(batch)
        changed[at] ^= 0xFF
        assert crc_matches(changed) == (at < 17)


def test_offset_and_epoch_are_assigned_in_place_without_touching_the_checksum() -> None:
    batch = build_batch(THREE)
    before = read_header(batch)

    assign(memoryview(batch), 1_000_000_000_000, 9)

    assert read_header(batch) == before._replace(base_offset=1_000_000_000_000, leader_epoch=9)
    assert crc_matches(batch)


def test_restamping_keeps_the_checksum_true() -> None:
    batch = build_batch(THREE)

    after = restamp(memoryview(batch), read_header(batch), 0x08, 123)

    assert read_header(batch) == after
    assert (after.attributes, after.max_timestamp) == (0x08, 123)
    assert crc_matches(batch)


def test_whole_batches_stop_at_a_partial_tail() -> None:
    first, second = build_batch(THREE), build_batch(THREE[:1], base_offset=3)
    both = bytes(first + second)

    for cut in range(len(both) + 1):
        found = [(head.base_offset, len(view)) for head, view in whole_batches(both[:cut])]
        expected = []
        if cut >= len(first):
            expected.append((0, len(first)))
        if cut >= len(both):
            expected.append((3, len(second)))
        assert found == expected


def test_whole_batches_refuse_a_header_that_cannot_be_one() -> None:
    good = build_batch(THREE)
    walk = whole_batches(good + bytes(80))

    assert next(walk)[0].record_count == 3
    with pytest.raises(CorruptBatch):
        next(walk)
