"""A cleaning pass over a log: what stays, what goes and when."""

from __future__ import annotations

from typing import Any

import pytest
from tests.storage.compacted_log import MEMORY, CompactedLog, log, new_log

from tidelog.records.batch import CorruptBatch
from tidelog.records.compression import CompressionType
from tidelog.storage.compaction import (
    CleanerMemory,
    Compaction,
    dirty_range,
    is_worth_cleaning,
    plan_compaction,
)

__all__ = ["log", "new_log"]

DAY_MS = 86_400_000


def test_the_newest_record_of_each_key_stays_where_it_is(log: CompactedLog) -> None:
    log.put((b"a", b"1"), (b"b", b"2"))
    log.put((b"a", b"3"))
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"b", b"2"), (2, b"a", b"3")]
    log.bench.check()


def test_timestamps_and_the_place_of_a_batch_stay(log: CompactedLog) -> None:
    log.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    log.roll()
    before = log.records()[1:]

    log.clean()

    (batch,) = log.bench.batches()
    assert log.records() == before
    assert (batch.header.base_offset, batch.header.last_offset_delta) == (0, 2)
    assert batch.header.record_count == 2


def test_the_active_segment_is_never_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))

    assert log.clean() is None

    log.roll()
    log.put((b"a", b"3"))
    log.clean()
    assert log.contents() == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_nothing_at_or_above_the_last_stable_offset_is_read(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.roll()
    log.put((b"a", b"2"))
    log.roll()

    log.clean(stable=1)

    assert log.contents() == [(0, b"a", b"1"), (1, b"a", b"2")]
    assert log.bench.log.first_dirty_offset == 1


def test_what_is_not_durable_is_not_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.bench.log.roll(log.bench.now)

    assert log.clean() is None


def test_records_without_a_key_are_dropped(log: CompactedLog) -> None:
    log.put((None, b"1"), (b"a", b"2"))
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"a", b"2")]


def test_the_last_batch_of_the_cleaned_part_keeps_its_place_without_records(
    log: CompactedLog,
) -> None:
    log.put((b"a", b"1"))
    log.put((None, b"x"), (None, b"y"))
    log.roll()

    log.clean()

    last = log.bench.batches()[-1].header
    assert (last.base_offset, last.next_offset, last.record_count) == (1, 3, 0)
    log.bench.check()


def test_a_tombstone_outlives_its_key_by_delete_retention(new_log: Any) -> None:
    log = new_log(delete_retention_ms=1000)
    log.put((b"a", b"1"))
    log.put((b"a", None), (b"b", b"2"))
    log.roll()

    log.clean()
    assert log.contents() == [(1, b"a", None), (2, b"b", b"2")]
    (marked,) = log.bench.batches()
    assert marked.header.has_delete_horizon
    assert marked.header.base_timestamp == log.bench.now.wall_ms + 1000
    times = [record.timestamp for record in log.records()]
    assert times == [log.bench.now.wall_ms, log.bench.now.wall_ms + 1]

    log.bench.pass_ms(999)
    log.put((b"c", b"3"))
    log.roll()
    log.clean()
    assert (1, b"a", None) in log.contents()

    log.bench.pass_ms(1)
    log.put((b"d", b"4"))
    log.roll()
    log.clean()
    assert log.contents() == [(2, b"b", b"2"), (3, b"c", b"3"), (4, b"d", b"4")]
    log.bench.check_reads()


def test_records_younger_than_the_smallest_lag_stay_untouched(new_log: Any) -> None:
    log = new_log(min_compaction_lag_ms=1000)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))
    log.roll()
    log.bench.pass_ms(999)

    assert log.clean() is None

    log.bench.pass_ms(1)
    log.clean()
    assert log.contents() == [(1, b"a", b"2")]


def test_a_log_is_worth_cleaning_by_its_dirty_share_or_by_the_age_of_its_first_dirty_record(
    new_log: Any,
) -> None:
    log = new_log(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=60_000)
    log.put((b"a", b"1" * 100))
    log.roll()
    log.clean()
    log.put((b"b", b"2" * 50))
    log.roll()

    def worth() -> bool:
        dirty = dirty_range(log.bench.log, log.bench.log.end_offset, log.bench.now)
        assert dirty is not None
        return is_worth_cleaning(log.bench.log, dirty)

    assert not worth()
    log.bench.pass_ms(60_001)
    assert worth()


def test_small_neighbours_become_one_segment(new_log: Any) -> None:
    log = new_log(index_interval_bytes=100)
    for at in range(12):
        log.put((b"k%d" % (at % 8), b"v" * 40))
        log.roll()

    log.clean()

    assert log.bench.bases() == [0, 12]
    assert [offset for offset, _, _ in log.contents()] == list(range(4, 12))
    assert log.bench.names(".cleaned") == log.bench.names(".swap") == []
    log.bench.check_reads()


def test_a_full_map_of_keys_ends_the_pass_early_and_the_next_one_goes_on(
    new_log: Any,
) -> None:
    log = new_log()
    for at in range(20):
        log.put((b"key %d" % (at % 10), b"%d" % at))
    log.roll()
    tiny = CleanerMemory(200 * 4, 1.0)

    cleaned: list[int] = []
    while log.bench.log.first_dirty_offset < 20:
        log.clean(memory=tiny)
        cleaned.append(log.bench.log.first_dirty_offset)

    assert cleaned == [4, 8, 12, 16, 20]
    assert [offset for offset, _, _ in log.contents()] == list(range(10, 20))


@pytest.mark.parametrize("codec", list(CompressionType))
def test_compressed_batches_stay_compressed(log: CompactedLog, codec: CompressionType) -> None:
    log.put((b"a", b"1" * 50), (b"b", b"2" * 50), codec=codec)
    log.put((b"a", None), codec=codec)
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"b", b"2" * 50), (2, b"a", None)]
    assert {batch.header.codec for batch in log.bench.batches()} == {codec}


def test_a_log_that_was_cut_meanwhile_takes_nothing_from_the_pass(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))
    log.roll()
    log.put((b"a", b"3"))
    inner = log.bench.log
    dirty = dirty_range(inner, 2, log.bench.now)
    assert dirty is not None
    compaction = Compaction(plan_compaction(inner, dirty, MEMORY, log.bench.now))
    while compaction.finished is None:
        compaction.run_slice()

    inner.truncate_to(1, log.bench.now)

    assert not inner.can_swap_in(*compaction.finished, compaction.plan.generation)
    compaction.abandon()
    assert log.bench.names(".cleaned") == []
    assert log.contents() == [(0, b"a", b"1")]


def test_a_segment_that_was_cut_and_written_anew_is_not_replaced_by_what_it_held_before(
    log: CompactedLog,
) -> None:
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))
    log.roll()
    inner = log.bench.log
    dirty = dirty_range(inner, 2, log.bench.now)
    assert dirty is not None
    compaction = Compaction(plan_compaction(inner, dirty, MEMORY, log.bench.now))
    while compaction.finished is None:
        compaction.run_slice()
    [source] = compaction.finished.sources

    inner.truncate_to(1, log.bench.now)
    log.put((b"b", b"3"))
    log.roll()

    assert inner.segments.first is source
    assert not inner.can_swap_in(*compaction.finished, compaction.plan.generation)
    assert log.contents() == [(0, b"a", b"1"), (1, b"b", b"3")]


def test_truncation_lowers_how_far_a_log_is_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.roll()
    log.put((b"a", b"2"))
    log.roll()
    log.clean()
    assert log.bench.log.first_dirty_offset == 2

    log.bench.log.truncate_to(1, log.bench.now)

    assert log.bench.log.first_dirty_offset <= 1


def test_long_work_comes_in_slices(new_log: Any) -> None:
    log = new_log()
    for at in range(40):
        log.put((b"%d" % at, b"v" * 50_000))
    log.roll()

    done = log.clean()

    assert done is not None
    assert done.slices > 4
    assert len(log.contents()) == 40


@pytest.mark.parametrize(
    ("position", "damage"),
    [(3, b"\x80"), (8, b"\x00\x00\x10"), (26, b"\x40"), (65, b"?")],
    ids=["base offset", "length", "last offset", "key"],
)
def test_a_damaged_batch_ends_the_pass_and_is_left_as_it_is(
    log: CompactedLog, position: int, damage: bytes
) -> None:
    for at in range(6):
        log.put((b"k%d" % (at % 2), b"%d" % at))
    log.roll()
    bench = log.bench
    second = bench.batches()[1]
    bench.files.damage(bench.path(0), second.position + position, damage)
    before = bytes(bench.files.file_at(bench.path(0)).data)

    with pytest.raises(CorruptBatch):
        log.clean()
    assert bytes(bench.files.file_at(bench.path(0)).data) == before
