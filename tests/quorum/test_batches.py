from __future__ import annotations

import pytest

from tidelog.quorum.batches import (
    MAX_BATCH_BYTES,
    MAX_BATCH_RECORDS,
    TooLargeForOneBatch,
    in_batches,
    in_one_batch,
    record_batch,
)
from tidelog.records.batch import read_header
from tidelog.records.record import records_of


def test_a_run_ends_at_ten_thousand_records() -> None:
    sizes = [len(run) for run in in_batches([b"x"] * 25_000)]
    assert sizes == [10_000, 10_000, 5_000]


def test_a_run_ends_before_the_batch_grows_too_large() -> None:
    runs = list(in_batches([bytes(3 << 20)] * 4))
    assert [len(run) for run in runs] == [2, 2]
    assert all(len(record_batch(run, 5)) <= MAX_BATCH_BYTES for run in runs)


def test_no_values_make_no_batch() -> None:
    assert list(in_batches([])) == []


def test_records_that_belong_together_are_never_torn_apart() -> None:
    fitting = [b"x"] * MAX_BATCH_RECORDS
    assert in_one_batch(fitting) is fitting
    with pytest.raises(TooLargeForOneBatch):
        in_one_batch([b"x"] * (MAX_BATCH_RECORDS + 1))
    with pytest.raises(TooLargeForOneBatch):
        in_one_batch([bytes(3 << 20)] * 3)


def test_metadata_records_have_a_null_key_and_one_time() -> None:
    batch = record_batch([b"a", b"b"], 1234, base_offset=7, leader_epoch=3)
    header = read_header(batch)
    assert (header.base_offset, header.leader_epoch, header.producer_id) == (7, 3, -1)
    assert [(r.offset, r.timestamp, r.key, r.value) for r in records_of(batch)] == [
        (7, 1234, None, b"a"),
        (8, 1234, None, b"b"),
    ]
