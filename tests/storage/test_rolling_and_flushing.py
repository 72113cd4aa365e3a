"""Rolling segments and making them durable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import DiskError, ErrorCode
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.disk_operation import FileSynced

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


def batch_size(bench: LogBench) -> int:
    return len(bench.batch().data)


def test_a_segment_is_rolled_before_it_would_grow_too_large(new_bench: NewBench) -> None:
    size = batch_size(new_bench())
    bench = new_bench(segment_bytes=3 * size)
    for _ in range(7):
        bench.append()

    assert bench.bases() == [0, 3, 6]
    assert [segment.size for segment in bench.log.segments] == [3 * size, 3 * size, size]
    bench.check()


def test_a_segment_is_rolled_by_the_time_between_its_records(new_bench: NewBench) -> None:
    bench = new_bench(segment_ms=1000)
    bench.append(timestamp=5000)
    bench.append(timestamp=6000)
    bench.append(timestamp=6001)
    bench.append(timestamp=6500)

    assert bench.bases() == [0, 2]


def test_a_segment_without_timestamps_is_rolled_by_its_age(new_bench: NewBench) -> None:
    bench = new_bench(segment_ms=1000)
    bench.append(timestamp=-1)
    bench.pass_ms(1000)
    bench.append(timestamp=-1)
    bench.pass_ms(1)
    bench.append(timestamp=-1)

    assert bench.bases() == [0, 2]


def test_an_empty_segment_is_never_rolled_by_time(new_bench: NewBench) -> None:
    bench = new_bench(segment_ms=1000)
    bench.pass_ms(5000)
    bench.append()

    assert bench.bases() == [0]


def test_jitter_makes_a_segment_roll_earlier(new_bench: NewBench) -> None:
    bench = new_bench(segment_ms=1000, segment_jitter_ms=900)
    jitter = bench.log.segments.active.jitter_ms
    assert 0 < jitter < 900
    bench.append(timestamp=0)
    bench.append(timestamp=1000 - jitter)
    bench.append(timestamp=1001 - jitter)

    assert bench.bases() == [0, 2]


def test_a_segment_is_rolled_when_its_index_is_full(new_bench: NewBench) -> None:
    bench = new_bench(index_bytes=3 * 12, index_interval_bytes=0)
    for at in range(5):
        bench.append(timestamp=1000 + at)

    assert bench.bases() == [0, 3]
    bench.check()


def test_a_segment_is_rolled_when_offsets_no_longer_fit(new_bench: NewBench) -> None:
    bench = new_bench(cleanup_compact=True)
    bench.append()
    far = bench.batch(base_offset=2**31, leader_epoch=0)
    bench.log.append_as_follower(far.data, bench.now, fetch_epoch=0)
    further = bench.batch(base_offset=2**33, leader_epoch=0)
    bench.log.append_as_follower(further.data, bench.now, fetch_epoch=0)

    assert bench.bases() == [0, 1, 2**33]
    found = bench.log.read(2**31 + 1, 1, bench.log.end_offset)
    assert found is not None
    assert found.file is bench.log.segments.active.file


def test_a_leader_rolls_a_segment_whose_next_offset_no_longer_fits(new_bench: NewBench) -> None:
    bench = new_bench(cleanup_compact=True)
    bench.append()
    far = bench.batch(base_offset=2**31 - 1, leader_epoch=0)
    bench.log.append_as_follower(far.data, bench.now, fetch_epoch=0)
    assert bench.bases() == [0]

    bench.append()

    assert bench.bases() == [0, 2**31]


def test_a_segment_is_rolled_when_positions_no_longer_fit_whether_its_name_is_durable_or_not(
    new_bench: NewBench,
) -> None:
    bench = new_bench(segment_bytes=2**31 - 1, index_interval_bytes=0)
    bench.log.flushes.began_anew()
    bench.append()
    size = batch_size(bench)
    bench.log.segments.active.size = 2**31 - 1 - size  # as if so many bytes had been written
    bench.append()
    assert bench.bases() == [0], "the last byte is at 2^31 - 1"

    bench.append()

    assert bench.bases() == [0, 2]


def test_a_log_has_one_segment_until_what_it_begins_with_is_durable(new_bench: NewBench) -> None:
    bench = new_bench(segment_bytes=batch_size(new_bench()))
    bench.log.flushes.began_anew()
    for _ in range(3):
        bench.append()
    assert bench.bases() == [0]

    bench.identify()
    bench.append()

    assert bench.bases() == [0, 3]


def test_settings_take_effect_at_run_time(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.append()
    bench.append()
    bench.log.config = bench.config._replace(segment_bytes=2 * batch_size(bench))
    bench.append()

    assert bench.bases() == [0, 2]


def test_a_roll_leaves_final_time_entry_and_producer_snapshot(new_bench: NewBench) -> None:
    bench = new_bench()
    bench.append(timestamp=77, producer_id=1, producer_epoch=0, base_sequence=0)
    bench.log.roll(bench.now)

    assert list(bench.log.segments.first.time_index.entries()) == [(77, 0)]
    assert bench.names(".snapshot") == ["00000000000000000001.snapshot"]
    assert bench.names(".timeindex") == [
        "00000000000000000000.timeindex",
        "00000000000000000001.timeindex",
    ]


# Flushing


def test_a_roll_makes_a_flush_due_and_the_flush_moves_the_recovery_point(bench: LogBench) -> None:
    bench.append()
    assert not bench.log.needs_flush(bench.now)
    bench.log.roll(bench.now)
    bench.append()

    assert bench.log.needs_flush(bench.now)
    job = bench.log.flush_job()
    assert job is not None
    assert not bench.log.needs_flush(bench.now)
    assert bench.log.recovery_point == 0
    job.run()
    bench.log.flushed(job)
    assert bench.log.recovery_point == 2


def test_what_a_job_covers_survives_a_loss_of_power(bench: LogBench) -> None:
    bench.append(5)
    bench.log.roll(bench.now)
    bench.append(5)
    job = bench.log.flush_job()
    assert job is not None
    job.run()
    bench.append()

    bench.load(files=after_crash(bench.files, data_lost, names_undone), recovery_point=10)

    assert bench.log.end_offset == 10
    assert bench.log.damage == []
    bench.check()


def test_flushes_are_due_by_number_of_records_and_by_time(new_bench: NewBench) -> None:
    by_count = new_bench(flush_messages=3)
    by_count.append(2)
    assert not by_count.log.needs_flush(by_count.now)
    by_count.append()
    assert by_count.log.needs_flush(by_count.now)

    by_time = new_bench(flush_ms=100)
    assert not by_time.log.needs_flush(by_time.pass_ms(500))
    assert not by_time.log.needs_flush(by_time.pass_ms(500)), "nothing waits"
    by_time.append()
    assert not by_time.log.needs_flush(by_time.now)
    assert by_time.log.needs_flush(by_time.pass_ms(100))
    by_time.log.sync()
    assert not by_time.log.needs_flush(by_time.pass_ms(500))


def test_a_flush_leaves_alone_what_is_durable(bench: LogBench) -> None:
    bench.append()
    bench.log.roll(bench.now)
    bench.append()
    bench.log.sync()
    bench.append()
    before = len(bench.files.trace)

    bench.log.sync()

    synced = [each.path for each in bench.files.trace[before:] if isinstance(each, FileSynced)]
    assert bench.path(1) in synced
    assert bench.path(0) not in synced


def test_nothing_to_flush_is_no_job(bench: LogBench) -> None:
    bench.append()
    bench.log.sync()

    assert bench.log.flush_job() is None
    assert bench.log.recovery_point == 1


def test_a_second_job_covers_only_what_the_first_does_not(bench: LogBench) -> None:
    bench.append()
    first = bench.log.flush_job()
    assert first is not None
    assert bench.log.flush_job() is None or bench.log.recovery_point == 0
    bench.append()
    second = bench.log.flush_job()
    assert second is not None
    second.run()
    bench.log.flushed(second)
    first.run()
    bench.log.flushed(first)

    assert bench.log.recovery_point == 2


def test_a_job_from_before_a_truncation_moves_nothing(bench: LogBench) -> None:
    bench.append()
    bench.append()
    job = bench.log.flush_job()
    assert job is not None
    bench.log.truncate_to(1, bench.now)
    bench.append(epoch=1)
    job.run()
    bench.log.flushed(job)

    assert bench.log.recovery_point == 0


def test_a_failed_sync_is_never_made_good(bench: LogBench) -> None:
    bench.append()
    bench.files.fail_when(lambda operation: isinstance(operation, FileSynced), "I/O error")

    with pytest.raises(DiskError):
        bench.log.sync()
    bench.files.heal()

    assert bench.refused(bench.batch()).code == ErrorCode.kafka_storage_error
    assert bench.log.flush_job() is None
    assert bench.log.recovery_point == 0


def test_files_set_aside_stay_while_a_job_is_under_way(new_bench: NewBench) -> None:
    bench = new_bench(file_delete_delay_ms=10)
    bench.append()
    bench.log.roll(bench.now)
    job = bench.log.flush_job()
    assert job is not None
    bench.log.truncate_to(0, bench.now)
    bench.pass_ms(10)

    assert bench.log.sweep(bench.now) == 0
    job.run()
    bench.log.flushed(job)
    assert bench.log.sweep(bench.now) == 1
    assert bench.names(".deleted") == []


@pytest.mark.parametrize("rolls", [True, False], ids=["roll", "close"])
@pytest.mark.parametrize("count", range(1, 8))
def test_the_final_time_entry_is_durable_even_if_all_records_were_so_before(
    bench: LogBench, count: int, *, rolls: bool
) -> None:
    for _ in range(count):
        bench.append()
        bench.pass_ms(10)
    bench.log.sync()
    if rolls:
        bench.log.roll(bench.now)
        bench.append()
        bench.log.sync()
    else:
        bench.log.close()

    bench.load(
        clean=not rolls,
        recovery_point=bench.log.recovery_point,
        files=after_crash(bench.files, data_lost, names_undone),
    )

    bench.check()
