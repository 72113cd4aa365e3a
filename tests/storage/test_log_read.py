"""Answering fetches and lookups from a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import DiskError
from tidelog.records.batch import whole_batches
from tidelog.simulator.disk.disk_operation import FileRead
from tidelog.storage.log_values import TimestampOffset

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

EVERYTHING = 1 << 20


def bases(bench: LogBench, offset: int, max_bytes: int, up_to: int, **more: bool) -> list[int]:
    """The base offsets of the whole batches in the answer."""
    found = bench.log.read(offset, max_bytes, up_to, **more)
    if found is None:
        return []
    return [header.base_offset for header, _ in whole_batches(found.read())]


@pytest.fixture
def filled(new_bench: NewBench) -> LogBench:
    """Six batches of ten records: 0 to 29 in one segment, 30 to 59 in another."""
    bench = new_bench(index_interval_bytes=200)
    for at in range(6):
        if at == 3:
            bench.log.roll(bench.now)
        bench.append(10)
    return bench


def test_a_read_starts_with_the_batch_that_holds_the_offset(filled: LogBench) -> None:
    assert bases(filled, 30, EVERYTHING, 60) == [30, 40, 50]
    assert bases(filled, 45, EVERYTHING, 60) == [40, 50]
    assert bases(filled, 59, EVERYTHING, 60) == [50]


def test_a_read_stays_in_one_segment(filled: LogBench) -> None:
    assert bases(filled, 0, EVERYTHING, 60) == [0, 10, 20]


def test_a_read_hands_out_nothing_at_or_above_the_bound(filled: LogBench) -> None:
    assert bases(filled, 30, EVERYTHING, 50) == [30, 40]
    assert bases(filled, 0, EVERYTHING, 20) == [0, 10]
    assert bases(filled, 0, EVERYTHING, 30) == [0, 10, 20]
    assert filled.log.read(20, EVERYTHING, 20) is None
    assert filled.log.read(60, EVERYTHING, 60) is None


@pytest.mark.parametrize("reloaded", [False, True])
def test_the_bound_holds_when_it_lies_far_below_the_tail(
    new_bench: NewBench, reloaded: bool
) -> None:
    bench = new_bench(index_interval_bytes=500)
    for _ in range(600):
        bench.append()
    if reloaded:
        bench.reopen()

    for up_to in (1, 17, 300, 599, 600):
        for offset in (0, 1, 16, 299, 598):
            expected = list(range(offset, up_to))
            assert bases(bench, offset, EVERYTHING, up_to) == expected


def test_at_most_the_bytes_asked_for_are_handed_out(filled: LogBench) -> None:
    one = filled.batches()[0].header.size
    found = filled.log.read(0, 2 * one + 5, 60)

    assert found is not None
    assert found.length == 2 * one + 5


def test_the_first_batch_is_whole_even_if_it_is_larger_than_asked_for(filled: LogBench) -> None:
    assert bases(filled, 40, 1, 60) == [40]
    assert bases(filled, 40, 0, 60) == [40]


def test_a_first_batch_that_does_not_fit_may_be_left_out(filled: LogBench) -> None:
    one = filled.batches()[0].header.size

    assert filled.log.read(40, one - 1, 60, whole_first_batch=False) is None
    assert filled.log.read(40, 0, 60, whole_first_batch=False) is None
    assert bases(filled, 40, one, 60, whole_first_batch=False) == [40]


def test_a_reader_at_the_tail_needs_no_read_from_disk(filled: LogBench) -> None:
    filled.files.fail_when(lambda operation: isinstance(operation, FileRead))

    assert filled.log.read(50, EVERYTHING, 60) is not None
    assert filled.log.read(30, EVERYTHING, 40) is not None
    assert filled.log.health.offline_reason is None


def test_a_read_that_fails_takes_the_directory_offline(filled: LogBench) -> None:
    filled.reopen()
    filled.files.fail_when(lambda operation: isinstance(operation, FileRead), "I/O error")

    with pytest.raises(DiskError):
        filled.log.read(35, EVERYTHING, 60)
    assert filled.health.offline_reason is not None


def test_wrong_index_entries_are_noticed_and_rebuilt(filled: LogBench) -> None:
    filled.reopen()
    for base in (0, 30):
        filled.files.damage(filled.path(base, ".index"), 4, b"\x00\x00\x00\x07")

    assert bases(filled, 25, EVERYTHING, 60) == [20]
    assert bases(filled, 55, EVERYTHING, 60) == [50]
    filled.check()


def test_an_index_out_of_order_is_rebuilt(filled: LogBench) -> None:
    filled.reopen()
    filled.files.damage(filled.path(0, ".index"), 0, b"\x7f\x00\x00\x00")

    assert bases(filled, 25, EVERYTHING, 60) == [20]
    filled.check()


def test_a_slice_ends_below_its_upper_bound(new_bench: NewBench) -> None:
    bench = new_bench(index_interval_bytes=200)
    for _ in range(30):
        bench.append(2)
    one = bench.batches()[0].header.size

    bound = bench.log.upper_bound_of(10, 5 * one)
    assert 20 <= bound <= 40
    assert bench.log.upper_bound_of(50, EVERYTHING) == 60


# By time


def test_a_timestamp_finds_the_first_record_that_is_as_late(new_bench: NewBench) -> None:
    bench = new_bench(index_interval_bytes=100)
    for at in range(20):
        if at == 10:
            bench.log.roll(bench.now)
        bench.append(3, timestamp=1000 + 10 * at, epoch=at // 5)

    assert bench.log.offset_for_timestamp(0, 60) == TimestampOffset(1000, 0, 0)
    assert bench.log.offset_for_timestamp(1002, 60) == TimestampOffset(1002, 2, 0)
    assert bench.log.offset_for_timestamp(1003, 60) == TimestampOffset(1010, 3, 0)
    assert bench.log.offset_for_timestamp(1151, 60) == TimestampOffset(1151, 46, 3)
    assert bench.log.offset_for_timestamp(1192, 60) == TimestampOffset(1192, 59, 3)
    assert bench.log.offset_for_timestamp(1193, 60) is None


def test_a_timestamp_lookup_respects_start_and_bound(new_bench: NewBench) -> None:
    bench = new_bench()
    for at in range(4):
        bench.append(3, timestamp=1000 + 10 * at)
    bench.log.raise_start_to(4)

    assert bench.log.offset_for_timestamp(0, 12) == TimestampOffset(1011, 4, 0)
    assert bench.log.offset_for_timestamp(1030, 12) == TimestampOffset(1030, 9, 0)
    assert bench.log.offset_for_timestamp(1030, 9) is None


def test_a_timestamp_lookup_survives_a_damaged_time_index(new_bench: NewBench) -> None:
    bench = new_bench(index_interval_bytes=100)
    for at in range(20):
        bench.append(timestamp=1000 + at)
    bench.reopen()
    path = bench.path(0, ".timeindex")
    entry = (1004).to_bytes(8, "big") + (15).to_bytes(4, "big")
    bench.files.damage(path, 0, entry)

    assert bench.log.offset_for_timestamp(1006, 20) == TimestampOffset(1006, 6, 0)


def test_the_largest_timestamp_is_found_wherever_it_is(new_bench: NewBench) -> None:
    bench = new_bench()
    assert bench.log.max_timestamp_offset(0) is None
    bench.append(2, timestamp=500)
    bench.append(3, timestamp=900)
    bench.log.roll(bench.now)
    bench.append(2, timestamp=700)

    assert bench.log.max_timestamp_offset(7) == TimestampOffset(902, 4, 0)
    assert bench.log.max_timestamp_offset(4) is None
    bench.reopen()
    assert bench.log.max_timestamp_offset(7) == TimestampOffset(902, 4, 0)
    bench.log.raise_start_to(5)
    assert bench.log.max_timestamp_offset(7) == TimestampOffset(701, 6, 0)


# Transactions


def test_aborted_transactions_come_from_every_segment_they_end_in(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.append(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    bench.append(producer_id=2, producer_epoch=0, base_sequence=0, transactional=True)
    bench.log.roll(bench.now)
    bench.end_transaction(1, committed=False)
    bench.append(producer_id=3, producer_epoch=0, base_sequence=0, transactional=True)
    bench.log.roll(bench.now)
    bench.end_transaction(3, committed=True)
    bench.end_transaction(2, committed=False)

    found = bench.log.aborted_transactions(0, 6)
    assert [(entry.producer_id, entry.first_offset, entry.last_offset) for entry in found] == [
        (1, 0, 2),
        (2, 1, 5),
    ]
    assert [entry.producer_id for entry in bench.log.aborted_transactions(3, 6)] == [2]
    assert [entry.producer_id for entry in bench.log.aborted_transactions(0, 1)] == [1]
    bench.check()
    bench.load()
    bench.check()


def test_the_first_unstable_offset_is_that_of_the_oldest_undecided_transaction(
    bench: LogBench,
) -> None:
    bench.append(2)
    bench.append(producer_id=1, producer_epoch=0, base_sequence=0, transactional=True)
    assert bench.log.first_unstable_offset(3) == 2

    bench.end_transaction(1, committed=True)

    assert bench.log.first_unstable_offset(3) == 2
    assert bench.log.first_unstable_offset(4) is None
