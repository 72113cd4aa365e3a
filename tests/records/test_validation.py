from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import ErrorCode
from tidelog.records.batch import HEADER_SIZE, crc_matches, read_header, write_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType, compress
from tidelog.records.control_batch import end_txn_marker
from tidelog.records.record import records_of
from tidelog.records.validation import (
    AcceptedBatch,
    BatchRules,
    RejectedBatch,
    inflate_limit,
    validate_produced,
)

NOW = 1_700_000_000_000
VERSION = 9
TWO = [NewRecord(b"a", b"one", NOW), NewRecord(b"b", b"two", NOW + 7)]


def judge(
    batch: bytes | bytearray | None,
    rules: BatchRules | None = None,
    version: int = VERSION,
) -> AcceptedBatch | RejectedBatch:
    view = None if batch is None else memoryview(batch)
    return validate_produced(view, rules or BatchRules(), NOW, version)


def accepted(batch: bytes | bytearray, rules: BatchRules | None = None) -> AcceptedBatch:
    verdict = judge(batch, rules)
    assert isinstance(verdict, AcceptedBatch), verdict
    assert crc_matches(verdict.data)
    assert read_header(verdict.data) == verdict.header
    assert not verdict.data.readonly
    return verdict


def refused(
    batch: bytes | bytearray | None, rules: BatchRules | None = None, version: int = VERSION
) -> ErrorCode:
    verdict = judge(batch, rules, version)
    assert isinstance(verdict, RejectedBatch)
    assert verdict.refusal.why
    return verdict.refusal.code


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a checksum that is right."""
    copy = bytearray(batch)
    write_header(copy, read_header(batch)._replace(**fields))
    return copy


def with_records(
    data: bytes, count: int, codec: CompressionType = CompressionType.NONE
) -> bytearray:
    """A batch whose header is good and whose inflated records are `data`."""
    return with_block(compress(codec, data), count, codec)


def with_block(block: bytes, count: int, codec: CompressionType) -> bytearray:
    batch = build_batch(TWO)[:HEADER_SIZE] + block
    header = read_header(batch)
    write_header(
        batch,
        header._replace(attributes=codec, record_count=count, last_offset_delta=count - 1),
    )
    return batch


@pytest.mark.parametrize("codec", CompressionType)
def test_a_good_batch_is_accepted_in_the_buffer_it_came_in(codec: CompressionType) -> None:
    batch = build_batch(TWO, codec=codec)
    before = bytes(batch)

    verdict = accepted(batch)

    assert verdict.data.obj is batch
    assert bytes(verdict.data) == before


def test_a_read_only_buffer_is_copied_so_that_offsets_can_be_assigned() -> None:
    batch = bytes(build_batch(TWO))

    assert bytes(accepted(batch).data) == batch


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.builds(
            NewRecord,
            st.binary(max_size=40),
            st.none() | st.binary(max_size=100),
            st.integers(NOW - 10**9, NOW + 3_600_000),
        ),
        min_size=1,
        max_size=80,
    ),
    st.sampled_from(CompressionType),
    st.none() | st.sampled_from(CompressionType),
    st.booleans(),
)
def test_what_is_built_is_accepted_and_keeps_its_records(
    records: list[NewRecord],
    sent: CompressionType,
    kept: CompressionType | None,
    log_append_time: bool,
) -> None:
    rules = BatchRules(compacted=True, codec=kept, log_append_time=log_append_time)

    verdict = accepted(build_batch(records, codec=sent), rules)

    assert verdict.header.codec is (sent if kept is None else kept)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records_of(verdict.data)] == [
        (index, NOW if log_append_time else record.timestamp, record.key, record.value)
        for index, record in enumerate(records)
    ]


# The shape of the field.


@pytest.mark.parametrize("field", [None, b"", b"\x00" * 11])
def test_no_batch_is_an_invalid_record(field: bytes | None) -> None:
    assert refused(field) is ErrorCode.invalid_record


def test_two_batches_are_an_invalid_record() -> None:
    assert refused(build_batch(TWO) + build_batch(TWO)) is ErrorCode.invalid_record


def test_bytes_after_the_batch_are_an_invalid_record() -> None:
    assert refused(build_batch(TWO) + b"\x00") is ErrorCode.invalid_record


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 128, 255])
def test_another_format_version_is_an_invalid_record(magic: int) -> None:
    batch = build_batch(TWO)
    batch[16] = magic

    assert refused(batch) is ErrorCode.invalid_record


def test_a_legacy_message_shorter_than_a_header_is_an_invalid_record() -> None:
    message = bytes(8) + (14).to_bytes(4, "big") + bytes(4) + b"\x01" + bytes(9)

    assert refused(message) is ErrorCode.invalid_record


@pytest.mark.parametrize("length", [-(1 << 31), -1, 0, 14, 48])
def test_a_length_below_the_header_is_corrupt(length: int) -> None:
    batch = build_batch(TWO)
    batch[8:12] = length.to_bytes(4, "big", signed=True)

    assert refused(batch) is ErrorCode.corrupt_message


@pytest.mark.parametrize("more", [1, 1000, (1 << 31) - 100])
def test_a_length_beyond_the_field_is_corrupt(more: int) -> None:
    batch = build_batch(TWO)
    batch[8:12] = min(len(batch) - 12 + more, (1 << 31) - 1).to_bytes(4, "big")

    assert refused(batch) is ErrorCode.corrupt_message


def test_a_batch_cut_short_anywhere_is_refused() -> None:
    batch = build_batch(TWO)

    for cut in range(len(batch)):
        assert refused(batch[:cut]) in (ErrorCode.invalid_record, ErrorCode.corrupt_message)


# Codec, base offset, size, checksum.


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_an_unknown_codec_is_an_unsupported_compression_type(codec: int) -> None:
    batch = changed(build_batch(TWO), attributes=codec)

    assert refused(batch) is ErrorCode.unsupported_compression_type


def test_zstd_needs_produce_version_seven() -> None:
    batch = build_batch(TWO, codec=CompressionType.ZSTD)

    assert refused(batch, version=6) is ErrorCode.unsupported_compression_type
    assert isinstance(judge(batch, version=7), AcceptedBatch)


@pytest.mark.parametrize("base_offset", [1, -1, 1 << 40])
def test_a_base_offset_set_by_the_client_is_an_invalid_record(base_offset: int) -> None:
    batch = build_batch(TWO, base_offset=base_offset)

    assert refused(batch) is ErrorCode.invalid_record


def test_a_leader_epoch_set_by_the_client_is_ignored() -> None:
    accepted(build_batch(TWO, leader_epoch=17))


def test_a_batch_larger_than_a_message_may_be_is_too_large() -> None:
    batch = build_batch(TWO)

    accepted(batch, BatchRules(max_message_bytes=len(batch)))
    assert (
        refused(batch, BatchRules(max_message_bytes=len(batch) - 1)) is ErrorCode.message_too_large
    )


def test_a_batch_larger_than_a_segment_is_too_large_a_list() -> None:
    batch = build_batch(TWO)

    accepted(batch, BatchRules(segment_bytes=len(batch)))
    assert (
        refused(batch, BatchRules(segment_bytes=len(batch) - 1)) is ErrorCode.record_list_too_large
    )


def test_a_batch_too_large_for_both_is_a_message_too_large() -> None:
    rules = BatchRules(segment_bytes=10, max_message_bytes=10)

    assert refused(build_batch(TWO), rules) is ErrorCode.message_too_large


@pytest.mark.parametrize("at", [17, 20, 21, 22, 30, 60, 61, -1])
def test_a_checksum_that_does_not_match_is_corrupt(at: int) -> None:
    batch = build_batch(TWO)
    batch[at] ^= 0x80

    assert refused(batch) is ErrorCode.corrupt_message


# Counts and flags in the header.


@pytest.mark.parametrize(
    ("count", "last_offset_delta"),
    [(0, -1), (-1, -2), (2, 0), (2, 2), (1, 1), (3, 1), ((1 << 31) - 1, 1), (0, 0), (2, -1)],
)
def test_a_count_that_is_not_the_offset_range_is_an_invalid_record(
    count: int, last_offset_delta: int
) -> None:
    batch = changed(build_batch(TWO), record_count=count, last_offset_delta=last_offset_delta)

    assert refused(batch) is ErrorCode.invalid_record


@pytest.mark.parametrize("count", [1, 3, 1000, (1 << 31) - 1])
@pytest.mark.parametrize("codec", CompressionType)
def test_a_count_that_is_not_the_number_of_records_is_an_invalid_record(
    codec: CompressionType, count: int
) -> None:
    batch = changed(build_batch(TWO, codec=codec), record_count=count, last_offset_delta=count - 1)

    assert refused(batch) is ErrorCode.invalid_record


def test_a_control_batch_from_a_client_is_an_invalid_record() -> None:
    marker = end_txn_marker(
        producer_id=1, producer_epoch=0, committed=True, coordinator_epoch=0, timestamp=NOW
    )

    assert refused(marker) is ErrorCode.invalid_record


@pytest.mark.parametrize("sequence", [-1, -2, -(1 << 31)])
def test_a_producer_id_without_sequence_is_an_invalid_record(sequence: int) -> None:
    batch = build_batch(TWO, producer_id=0, producer_epoch=0, base_sequence=sequence)

    assert refused(batch) is ErrorCode.invalid_record


def test_a_sequence_without_producer_id_means_nothing() -> None:
    accepted(build_batch(TWO, base_sequence=5))


@pytest.mark.parametrize("log_append_time", [False, True])
def test_the_client_may_not_claim_log_append_time(log_append_time: bool) -> None:
    batch = build_batch(TWO, log_append_time_ms=NOW)
    rules = BatchRules(log_append_time=log_append_time)

    assert refused(batch, rules) is ErrorCode.invalid_timestamp


# The records themselves.


def records_data(records: list[NewRecord]) -> bytearray:
    return build_batch(records)[HEADER_SIZE:]


MALFORMED: dict[str, Callable[[bytearray], object]] = {
    "cut": lambda data: data.pop(),
    "longer": lambda data: data.append(0),
    "record length": lambda data: data.__setitem__(0, data[0] + 2),
    "negative record length": lambda data: data.__setitem__(0, 1),
    "offset delta": lambda data: data.__setitem__(3, 2),
    "negative offset delta": lambda data: data.__setitem__(3, 1),
    "key length": lambda data: data.__setitem__(4, 60),
    "value length": lambda data: data.__setitem__(6, 8),
    "header count": lambda data: data.__setitem__(10, 2),
}


@pytest.mark.parametrize("codec", CompressionType)
@pytest.mark.parametrize("what", MALFORMED)
def test_records_that_do_not_fill_the_batch_in_order_are_an_invalid_record(
    what: str, codec: CompressionType
) -> None:
    data = records_data(TWO)
    MALFORMED[what](data)

    assert refused(with_records(bytes(data), 2, codec)) is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", CompressionType)
def test_offset_deltas_that_skip_or_repeat_are_an_invalid_record(codec: CompressionType) -> None:
    one = bytes(records_data(TWO[:1]))

    assert refused(with_records(one * 2, 2, codec)) is ErrorCode.invalid_record


@pytest.mark.parametrize(
    "codec",
    [CompressionType.GZIP, CompressionType.SNAPPY, CompressionType.LZ4, CompressionType.ZSTD],
)
def test_corrupt_compressed_data_is_an_invalid_record(codec: CompressionType) -> None:
    good = compress(codec, bytes(records_data(TWO)))

    for block in (b"", b"\x00", good[:-1], good[: len(good) // 2], b"\xff" * len(good)):
        assert refused(with_block(block, 2, codec)) is ErrorCode.invalid_record


@pytest.mark.parametrize("codec", [CompressionType.GZIP, CompressionType.LZ4, CompressionType.ZSTD])
def test_a_bomb_is_too_large_a_message(codec: CompressionType) -> None:
    limit = inflate_limit(BatchRules().max_message_bytes)
    batch = build_batch([NewRecord(b"k", bytes(limit), NOW)], codec=codec)
    assert len(batch) < 200_000

    assert refused(batch) is ErrorCode.message_too_large


def test_the_room_for_inflated_records_grows_with_the_size_of_messages() -> None:
    assert inflate_limit(1000) == 16 * 1024 * 1024
    assert inflate_limit(10 * 1024 * 1024) == 160 * 1024 * 1024


def test_the_room_for_inflated_records_is_bounded_but_holds_any_message_allowed() -> None:
    assert inflate_limit(100 * 1024 * 1024) == 256 * 1024 * 1024
    assert inflate_limit((1 << 31) - 1) == (1 << 31) - 1
