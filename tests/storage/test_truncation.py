"""Cutting a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import DiskError
from tidelog.simulator.disk.crash import (
    Replay,
    Unsynced,
    after_crash,
    data_kept,
    data_lost,
    names_undone,
)
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.log_values import Appended
from tidelog.storage.recovery import create_log

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


@pytest.fixture
def filled(new_bench: NewBench) -> LogBench:
    """Twelve batches of two records in three segments, an epoch for every third batch."""
    bench = new_bench(index_interval_bytes=200, file_delete_delay_ms=1000)
    for at in range(12):
        if at in (4, 8):
            bench.log.roll(bench.now)
        bench.append(
            2, epoch=at // 3, timestamp=bench.now.wall_ms + at, producer_id=1, producer_epoch=0,
            base_sequence=2 * at,
        )  # fmt: skip
    return bench


@pytest.mark.parametrize("offset", range(0, 24, 2))
def test_every_part_of_a_log_follows_a_truncation(filled: LogBench, offset: int) -> None:
    kept = filled.contents()[: offset // 2]

    assert filled.log.truncate_to(offset, filled.now)

    assert filled.contents() == kept
    assert filled.log.end_offset == offset
    filled.check()
    filled.append(epoch=9)
    filled.check()
    filled.reopen()
    filled.check()
    assert filled.contents()[:-1] == kept


def test_a_producer_can_repeat_what_was_cut_off(filled: LogBench) -> None:
    filled.log.truncate_to(20, filled.now)

    again = filled.append(2, epoch=5, producer_id=1, producer_epoch=0, base_sequence=20)

    assert again == Appended(20, 21, -1, False)
    filled.check()


def test_truncating_at_the_end_drops_only_epochs_without_records(filled: LogBench) -> None:
    filled.log.epochs.assign(8, 24)

    assert not filled.log.truncate_to(24, filled.now)
    assert not filled.log.truncate_to(100, filled.now)

    assert filled.log.end_offset == 24
    assert filled.log.epochs.latest_epoch == 3


def test_the_recovery_point_on_disk_is_lowered_before_any_byte_goes(filled: LogBench) -> None:
    filled.log.sync()
    assert filled.log.recovery_point == 24
    filled.lowered.clear()

    filled.log.truncate_to(10, filled.now)

    assert filled.lowered == [8], "where the cut segment begins"
    assert filled.log.recovery_point == 8


def test_segments_cut_off_are_set_aside_newest_first_and_swept_later(filled: LogBench) -> None:
    before = len(filled.files.trace)
    filled.log.truncate_to(4, filled.now)

    renamed = [
        operation.path.rpartition("/")[2]
        for operation in filled.files.trace[before:]
        if operation.path.endswith(".log") and hasattr(operation, "target")
    ]
    assert renamed == ["00000000000000000016.log", "00000000000000000008.log"]
    assert len(filled.names(".deleted")) == 6
    filled.log.sweep(filled.pass_ms(999))
    assert len(filled.names(".deleted")) == 6
    filled.log.sweep(filled.pass_ms(1))
    assert filled.names(".deleted") == []


def test_a_reader_keeps_its_slice_of_a_segment_that_was_cut_off(filled: LogBench) -> None:
    found = filled.log.read(20, 1 << 20, 24)
    assert found is not None
    content = found.read()

    filled.log.truncate_to(4, filled.now)

    assert found.read() == content


def test_a_log_can_start_over_anywhere(filled: LogBench) -> None:
    filled.log.truncate_fully_and_start_at(100, filled.now)

    assert (filled.log.start_offset, filled.log.end_offset) == (100, 100)
    assert filled.bases() == [100]
    assert filled.log.epochs.entries == []
    assert len(filled.log.producers) == 0
    assert filled.names(".snapshot") == []
    filled.append(epoch=7)
    filled.check()
    filled.load()
    assert (filled.log.start_offset, filled.log.end_offset) == (100, 101)
    filled.check()


def test_a_log_whose_disk_fails_while_it_starts_over_still_starts_before_its_end(
    filled: LogBench,
) -> None:
    filled.files.fail_when(lambda operation: True)

    with pytest.raises(DiskError):
        filled.log.truncate_fully_and_start_at(100, filled.now)

    assert (filled.log.start_offset, filled.log.end_offset) == (0, 24)


def test_a_log_can_start_over_where_it_started_twice(filled: LogBench) -> None:
    for _ in range(2):
        filled.log.truncate_fully_and_start_at(0, filled.now)
        filled.append()
    filled.check()
    filled.log.sweep(filled.pass_ms(1000))

    assert filled.names(".deleted") == []
    assert filled.log.end_offset == 1
    filled.check()


def test_truncating_below_the_first_segment_starts_over_there(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.log.truncate_fully_and_start_at(50, bench.now)
    bench.append()

    assert bench.log.truncate_to(20, bench.now)

    assert (bench.log.start_offset, bench.log.end_offset) == (20, 20)
    assert bench.bases() == [20]


def test_truncating_below_the_log_start_lowers_it(filled: LogBench) -> None:
    filled.log.raise_start_to(6)
    filled.log.truncate_to(4, filled.now)

    assert filled.log.start_offset == 4
    filled.check()


@pytest.mark.parametrize("offset", [5, 7])
def test_a_cut_within_the_batch_that_the_log_starts_in_leaves_nothing(
    filled: LogBench, offset: int
) -> None:
    filled.log.raise_start_to(7)

    assert filled.log.truncate_to(offset, filled.now)

    assert (filled.log.start_offset, filled.log.end_offset) == (offset, offset)
    assert filled.contents() == []
    filled.append(epoch=9)
    filled.check()
    filled.reopen()
    filled.check()


@pytest.mark.parametrize("data", [data_kept, data_lost])
def test_no_crash_in_a_truncation_leaves_a_hole(filled: LogBench, data: object) -> None:
    whole = filled.contents()
    filled.log.sync()
    filled.files.trace.clear()
    filled.files.image = after_crash(filled.files).image
    filled.log.truncate_to(6, filled.now)
    trace = list(filled.files.trace)
    replay = Replay(filled.files.image)

    for operation in trace:
        replay.apply(operation)
        for names in (names_undone, lambda _directory, pending: pending):
            fate = data_kept if data is data_kept else data_lost
            filled.load(files=after_crash(replay.disk, fate, names), recovery_point=6)
            found = filled.contents()
            assert found == whole[: len(found)]
            assert len(found) >= 3
            filled.check()


@pytest.mark.parametrize("offset", [10, 8])
def test_a_cut_is_durable_after_a_clean_stop(filled: LogBench, offset: int) -> None:
    filled.log.sync()
    filled.log.truncate_to(offset, filled.now)
    kept = filled.contents()
    filled.log.close()

    filled.load(
        clean=True,
        recovery_point=filled.log.recovery_point,
        files=after_crash(filled.files, data_lost, names_undone),
    )

    assert filled.contents() == kept
    filled.check()


def test_a_cut_is_durable_with_the_next_flush(filled: LogBench) -> None:
    filled.log.sync()
    filled.log.truncate_to(10, filled.now)
    filled.log.roll(filled.now)
    filled.append(epoch=9)
    filled.log.sync()
    kept = filled.contents()

    filled.load(
        recovery_point=filled.log.recovery_point,
        files=after_crash(filled.files, data_lost, names_undone),
    )

    assert filled.contents() == kept
    filled.check()


def test_a_cut_that_is_undone_by_a_power_cut_leaves_no_offset_twice(filled: LogBench) -> None:
    filled.log.sync()
    filled.log.truncate_to(10, filled.now)
    filled.log.roll(filled.now)
    filled.append(epoch=9)

    def cut_undone(file: Unsynced) -> bytes:
        return data_lost(file) if file.path == filled.path(8) else data_kept(file)

    filled.load(
        recovery_point=filled.log.recovery_point, files=after_crash(filled.files, cut_undone)
    )

    filled.check()


def test_a_log_is_settled_only_after_removed_segments_and_snapshots_are_gone_for_good(
    new_bench: NewBench,
) -> None:
    bench = new_bench()
    bench.append(producer_id=1, producer_epoch=0, base_sequence=0)
    bench.log.roll(bench.now)
    bench.append(producer_id=1, producer_epoch=0, base_sequence=1)
    bench.log.sync()
    syncs = bench.files.sync_count

    bench.log.truncate_to(0, bench.now)

    assert bench.files.sync_count == syncs
    assert not bench.log.flushes.is_settled
    job = bench.log.settling_job()
    assert job is not None
    job.run()
    bench.log.flushed(job)
    assert bench.log.settling_job() is None
    names = after_crash(bench.files, data_kept, names_undone).list(bench.log.directory)
    assert all(name.endswith(".deleted") for name in names if name.startswith("0" * 19 + "1"))


def test_a_log_that_is_cut_while_its_beginning_is_synced_still_rolls(new_bench: NewBench) -> None:
    bench = new_bench(segment_bytes=300)
    bench.files = MemoryFileSystem()
    bench.files.make_directory("/data")
    name, topic_id = bench.log.partition, bench.log.topic_id
    bench.log = create_log(name, topic_id, bench.config, bench.place, bench.now)
    job = bench.log.identity_job()
    assert job is not None
    for _ in range(3):
        bench.append()
    bench.log.truncate_to(2, bench.now)
    job.run()
    bench.log.flushed(job)

    for _ in range(20):
        bench.append()

    assert len(bench.log.segments) > 1


def test_what_a_cut_took_away_must_be_gone_for_good_before_anything_is_fetched(
    bench: LogBench,
) -> None:
    bench.append()
    bench.append()
    bench.log.truncate_to(1, bench.now)
    assert bench.log.flushes.is_settled, "no file went"
    bench.log.roll(bench.now)
    bench.append()
    bench.files.remove(bench.path(1, ".snapshot"))

    bench.log.truncate_to(0, bench.now)

    assert not bench.log.flushes.is_settled


def test_a_snapshot_that_a_cut_took_away_must_be_gone_for_good_too(bench: LogBench) -> None:
    for sequence in range(2):
        bench.append(producer_id=1, producer_epoch=0, base_sequence=sequence)
    bench.reopen()
    assert bench.names(".snapshot") == [f"{2:020d}.snapshot"]

    bench.log.truncate_to(1, bench.now)

    assert bench.names(".snapshot") == []
    assert not bench.log.flushes.is_settled


@pytest.mark.parametrize(("cleaned_to", "after"), [(0, 0), (1, 1), (4, 2)])
def test_a_cut_lowers_how_far_the_log_is_cleaned_and_never_raises_it(
    bench: LogBench, cleaned_to: int, after: int
) -> None:
    for at in range(4):
        if at == 2:
            bench.log.roll(bench.now)
        bench.append()
    bench.log.first_dirty_offset = cleaned_to

    bench.log.truncate_to(3, bench.now)

    assert bench.log.first_dirty_offset == after


def test_a_failed_directory_has_nothing_to_flush(new_bench: NewBench) -> None:
    bench = new_bench(flush_messages=1)
    bench.append()
    bench.log.roll(bench.now)
    bench.append()
    bench.log.truncate_to(0, bench.now)
    bench.log.flushes.began_anew()
    bench.append()
    assert bench.log.needs_flush(bench.now)
    assert bench.log.owes_flush(bench.now)
    assert not bench.log.flushes.is_settled
    bench.health.fail("Input/output error")

    assert not bench.log.needs_flush(bench.now)
    assert not bench.log.owes_flush(bench.now)
    assert bench.log.flush_job() is None
    assert bench.log.identity_job() is None
    assert bench.log.settling_job() is None
