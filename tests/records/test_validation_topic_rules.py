"""Rules of the topic, and what the leader rewrites in a batch that passes them."""

from __future__ import annotations

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.records.batch import crc_matches, read_header, write_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType
from tidelog.records.record import records_of
from tidelog.records.validation import (
    AcceptedBatch,
    BatchRules,
    RejectedBatch,
    validate_produced,
)

NOW = 1_700_000_000_000
TWO = [NewRecord(b"a", b"one", NOW), NewRecord(b"b", b"two", NOW + 7)]


def judge(batch: bytearray, rules: BatchRules) -> AcceptedBatch | RejectedBatch:
    return validate_produced(memoryview(batch), rules, NOW, 9)


def accepted(batch: bytearray, rules: BatchRules | None = None) -> AcceptedBatch:
    verdict = judge(batch, rules or BatchRules())
    assert isinstance(verdict, AcceptedBatch), verdict
    assert crc_matches(verdict.data)
    assert read_header(verdict.data) == verdict.header
    return verdict


def refused(batch: bytearray, rules: BatchRules | None = None) -> ErrorCode:
    verdict = judge(batch, rules or BatchRules())
    assert isinstance(verdict, RejectedBatch)
    return verdict.refusal.code


def changed(batch: bytearray, **fields: int) -> bytearray:
    """The batch with other header fields and a checksum that is right."""
    copy = bytearray(batch)
    write_header(copy, read_header(batch)._replace(**fields))
    return copy


def test_a_compacted_topic_names_every_record_without_key() -> None:
    records = [NewRecord(None if i % 2 else b"k", b"v", NOW) for i in range(6)]
    rules = BatchRules(compacted=True)

    verdict = judge(build_batch(records), rules)

    assert isinstance(verdict, RejectedBatch)
    assert verdict.refusal.code is ErrorCode.invalid_record
    assert [index for index, _ in verdict.record_errors] == [1, 3, 5]
    assert all("key" in message for _, message in verdict.record_errors)


def test_an_empty_key_is_a_key() -> None:
    accepted(build_batch([NewRecord(b"", b"v", NOW)]), BatchRules(compacted=True))


def test_a_topic_that_is_not_compacted_needs_no_keys() -> None:
    accepted(build_batch([NewRecord(None, b"v", NOW)]))


def test_a_timestamp_outside_the_window_is_invalid_and_named() -> None:
    rules = BatchRules(before_max_ms=1000, after_max_ms=2000)
    times = [NOW, NOW - 1000, NOW - 1001, NOW + 2000, NOW + 2001]

    verdict = judge(build_batch([NewRecord(b"k", b"v", time) for time in times]), rules)

    assert isinstance(verdict, RejectedBatch)
    assert verdict.refusal.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in verdict.record_errors] == [2, 4]
    assert str(NOW + 2001) in verdict.record_errors[1][1]


def test_by_default_the_past_is_free_and_the_future_ends_in_an_hour() -> None:
    accepted(build_batch([NewRecord(None, b"v", 0)]))
    accepted(build_batch([NewRecord(None, b"v", NOW + 3_600_000)]))
    late = build_batch([NewRecord(None, b"v", NOW + 3_600_001)])

    assert refused(late) is ErrorCode.invalid_timestamp


def test_a_record_without_timestamp_is_never_outside_the_window() -> None:
    rules = BatchRules(before_max_ms=10, after_max_ms=10)
    batch = build_batch([NewRecord(b"k", b"v", -1), NewRecord(b"k", b"v", NOW)])

    assert accepted(batch, rules).header.max_timestamp == NOW


def test_a_broken_timestamp_outweighs_a_missing_key() -> None:
    batch = build_batch([NewRecord(None, b"v", NOW), NewRecord(b"k", b"v", NOW + 9_000_000)])

    verdict = judge(batch, BatchRules(compacted=True))

    assert isinstance(verdict, RejectedBatch)
    assert verdict.refusal.code is ErrorCode.invalid_timestamp
    assert [index for index, _ in verdict.record_errors] == [0, 1]


@pytest.mark.parametrize("base", [(1 << 63) - 1, -(1 << 63)])
def test_a_timestamp_beyond_64_bits_is_invalid_however_wide_the_window(base: int) -> None:
    widest = BatchRules(before_max_ms=(1 << 63) - 1, after_max_ms=(1 << 63) - 1)
    records = [NewRecord(b"k", b"v", 0), NewRecord(b"k", b"v", 1 if base > 0 else -2)]

    assert refused(changed(build_batch(records), base_timestamp=base), widest) is (
        ErrorCode.invalid_timestamp
    )


def test_log_append_time_does_not_look_at_the_clients_times() -> None:
    batch = build_batch([NewRecord(None, b"v", NOW + 10**10)])

    verdict = accepted(batch, BatchRules(log_append_time=True))

    assert verdict.header.is_log_append_time
    assert verdict.header.max_timestamp == NOW


def test_log_append_time_still_asks_for_keys_on_a_compacted_topic() -> None:
    rules = BatchRules(log_append_time=True, compacted=True)
    verdict = judge(build_batch([NewRecord(None, b"v", NOW + 10**10)]), rules)

    assert isinstance(verdict, RejectedBatch)
    assert verdict.refusal.code is ErrorCode.invalid_record
    assert len(verdict.record_errors) == 1


def test_the_number_of_named_records_is_bounded() -> None:
    batch = build_batch([NewRecord(None, b"", NOW)] * 3000)

    verdict = judge(batch, BatchRules(compacted=True))

    assert isinstance(verdict, RejectedBatch)
    assert len(verdict.record_errors) == 1000


@pytest.mark.parametrize("claimed", [-1, 0, NOW - 1, NOW + 8, 1 << 62])
def test_the_greatest_timestamp_is_taken_from_the_records(claimed: int) -> None:
    verdict = accepted(changed(build_batch(TWO), max_timestamp=claimed))

    assert verdict.header.max_timestamp == NOW + 7


def test_a_batch_without_timestamps_has_no_greatest_one() -> None:
    batch = changed(build_batch([NewRecord(None, b"v", -1)]), max_timestamp=NOW)

    assert accepted(batch).header.max_timestamp == -1


def test_times_before_the_epoch_leave_no_greatest_timestamp() -> None:
    batch = build_batch([NewRecord(None, b"v", -5), NewRecord(None, b"v", -9)])

    assert accepted(changed(batch, max_timestamp=-5)).header.max_timestamp == -1


def test_another_codec_of_the_topic_recompresses_and_keeps_the_rest() -> None:
    batch = build_batch(
        TWO,
        codec=CompressionType.GZIP,
        producer_id=5,
        producer_epoch=1,
        base_sequence=3,
        transactional=True,
    )

    verdict = accepted(batch, BatchRules(codec=CompressionType.LZ4))

    sent = read_header(batch)
    assert verdict.header.codec is CompressionType.LZ4
    assert verdict.header.is_transactional
    assert verdict.header[6:] == sent[6:]
    assert list(records_of(verdict.data)) == list(records_of(batch))


def test_the_same_codec_is_not_recompressed() -> None:
    batch = build_batch(TWO, codec=CompressionType.ZSTD)

    assert accepted(batch, BatchRules(codec=CompressionType.ZSTD, level=19)).data.obj is batch


def test_uncompressed_is_a_codec_a_topic_can_ask_for() -> None:
    batch = build_batch(TWO, codec=CompressionType.SNAPPY)

    verdict = accepted(batch, BatchRules(codec=CompressionType.NONE))

    assert bytes(verdict.data) == bytes(build_batch(TWO))


def test_a_batch_that_recompression_makes_too_large_is_refused() -> None:
    batch = build_batch([NewRecord(None, bytes(10_000), NOW)], codec=CompressionType.ZSTD)

    too_long = BatchRules(codec=CompressionType.NONE, max_message_bytes=5_000)
    assert refused(batch, too_long) is ErrorCode.message_too_large
    too_long_for_a_segment = BatchRules(codec=CompressionType.NONE, segment_bytes=5_000)
    assert refused(batch, too_long_for_a_segment) is ErrorCode.record_list_too_large
