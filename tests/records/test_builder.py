from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import InvariantBroken
from tidelog.records.batch import crc_matches, read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import CompressionType
from tidelog.records.control_batch import (
    ControlKind,
    control_kind,
    control_record,
    coordinator_epoch_of,
    end_txn_marker,
)
from tidelog.records.record import Record, records_of

HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=3)
RECORDS = st.lists(
    st.builds(
        NewRecord,
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=200),
        st.integers(0, 1 << 41),
        HEADERS.map(tuple),
    ),
    min_size=1,
    max_size=90,
)


@settings(max_examples=examples(100), deadline=None)
@given(RECORDS, st.sampled_from(CompressionType), st.integers(0, 1 << 50))
def test_records_come_back_with_offsets_and_exact_milliseconds(
    records: list[NewRecord], codec: CompressionType, base_offset: int
) -> None:
    batch = build_batch(records, codec=codec, base_offset=base_offset)

    assert crc_matches(batch)
    assert list(records_of(batch)) == [
        Record(base_offset + index, record.timestamp, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    ]


@settings(max_examples=examples(30), deadline=None)
@given(RECORDS)
def test_the_header_counts_the_records_and_knows_their_times(records: list[NewRecord]) -> None:
    header = read_header(build_batch(records))

    assert header.record_count == len(records)
    assert header.last_offset_delta == len(records) - 1
    assert header.base_timestamp == records[0].timestamp
    assert header.max_timestamp == max(record.timestamp for record in records)


def test_log_append_time_replaces_the_time_of_every_record() -> None:
    batch = build_batch(
        [NewRecord(None, b"a", 5), NewRecord(None, b"b", 6)], log_append_time_ms=1_000
    )

    assert read_header(batch).is_log_append_time
    assert [record.timestamp for record in records_of(batch)] == [1_000, 1_000]


def test_records_without_time_leave_the_batch_without_time() -> None:
    header = read_header(build_batch([NewRecord(None, b"a", -1)]))

    assert (header.base_timestamp, header.max_timestamp) == (-1, -1)


def test_a_batch_of_nothing_is_not_built() -> None:
    with pytest.raises(InvariantBroken):
        build_batch([])


def test_an_end_of_transaction_marker_is_one_transactional_control_record() -> None:
    batch = end_txn_marker(
        producer_id=8, producer_epoch=3, committed=False, coordinator_epoch=6, timestamp=99
    )

    header = read_header(batch)
    assert header.is_control
    assert header.is_transactional
    assert header.codec is CompressionType.NONE
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (8, 3, -1)
    (record,) = records_of(batch)
    assert record.key == b"\x00\x00\x00\x00"
    assert record.value == b"\x00\x00\x00\x00\x00\x06"
    assert control_kind(record.key) is ControlKind.ABORT
    assert coordinator_epoch_of(record.value) == 6


@pytest.mark.parametrize("kind", ControlKind)
def test_a_control_key_names_its_kind(kind: ControlKind) -> None:
    assert control_kind(control_record(kind, b"", 0).key) is kind


@pytest.mark.parametrize(
    "key", [None, b"", b"\x00\x00\x00", b"\x00\x00\x00\x63", b"\xff\xff\x00\x00"]
)
def test_an_unknown_control_key_has_no_kind(key: bytes | None) -> None:
    assert control_kind(key) is None


def test_a_marker_without_its_value_has_no_coordinator_epoch() -> None:
    assert coordinator_epoch_of(None) is None
    assert coordinator_epoch_of(b"\x00\x00\x00") is None
