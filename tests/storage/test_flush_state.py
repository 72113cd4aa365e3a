"""What a flush covers, and what its end proves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.simulator.disk.disk_operation import DirectorySynced, FileSynced
from tidelog.storage.identity import PARTITION_METADATA
from tidelog.storage.leader_epoch_cache import FILE_NAME as EPOCHS

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

    from tidelog.storage.flush import FlushJob


def finish(bench: LogBench, job: FlushJob | None) -> None:
    assert job is not None
    job.run()
    bench.log.flushed(job)


def synced(bench: LogBench, since: int) -> list[str]:
    """The last parts of the paths of files that were synced."""
    return [
        operation.path.rpartition("/")[2]
        for operation in bench.files.trace[since:]
        if isinstance(operation, FileSynced)
    ]


def test_a_cut_never_raises_the_recovery_point(bench: LogBench) -> None:
    bench.append()
    bench.log.roll(bench.now)
    bench.append()
    bench.append()

    bench.log.truncate_to(2, bench.now)

    assert bench.log.recovery_point == 0


def test_names_that_changed_are_made_durable_though_the_log_did_not_grow(
    new_bench: NewBench,
) -> None:
    bench = new_bench(retention_bytes=0)
    bench.append()
    bench.log.roll(bench.now)
    bench.append()
    bench.log.sync()
    bench.log.delete_expired(bench.now, 1)
    before = len(bench.files.trace)

    finish(bench, bench.log.flush_job())

    assert any(isinstance(each, DirectorySynced) for each in bench.files.trace[before:])
    assert bench.log.flush_job() is None


def test_a_segment_whose_indexes_were_rebuilt_is_made_durable_though_the_log_did_not_grow(
    bench: LogBench,
) -> None:
    bench.append()
    bench.log.sync()
    bench.log.segments.first.rebuild_indexes()
    before = len(bench.files.trace)

    finish(bench, bench.log.flush_job())

    assert f"{0:020d}.log" in synced(bench, before)
    assert bench.log.flush_job() is None


def test_a_flush_makes_the_epochs_durable(bench: LogBench) -> None:
    bench.append(epoch=0)
    bench.log.sync()
    bench.append(epoch=1)
    before = len(bench.files.trace)

    bench.log.sync()

    assert EPOCHS in synced(bench, before)


def test_a_flush_makes_durable_what_a_log_begins_with(bench: LogBench) -> None:
    bench.log.truncate_fully_and_start_at(5, bench.now)
    bench.append()
    before = len(bench.files.trace)

    bench.log.sync()

    assert PARTITION_METADATA in synced(bench, before)
    assert bench.log.flushes.is_identified


def test_what_a_log_begins_with_is_asked_for_once(bench: LogBench) -> None:
    bench.log.truncate_fully_and_start_at(5, bench.now)

    assert bench.log.identity_job() is not None
    assert bench.log.identity_job() is None


def test_a_job_of_an_earlier_beginning_says_nothing_of_the_present_one(bench: LogBench) -> None:
    bench.log.truncate_fully_and_start_at(5, bench.now)
    early = bench.log.identity_job()
    bench.log.truncate_fully_and_start_at(9, bench.now)

    finish(bench, early)

    assert not bench.log.flushes.is_identified


def test_names_alone_do_not_make_durable_what_a_log_begins_with(bench: LogBench) -> None:
    bench.log.truncate_fully_and_start_at(5, bench.now)

    finish(bench, bench.log.settling_job())

    assert bench.log.flushes.is_settled
    assert not bench.log.flushes.is_identified


def test_the_end_of_an_earlier_job_takes_back_nothing_that_a_later_one_proved(
    bench: LogBench,
) -> None:
    bench.append()
    bench.log.roll(bench.now)
    first = bench.log.flush_job()
    bench.append()
    bench.log.roll(bench.now)
    second = bench.log.flush_job()

    finish(bench, second)
    finish(bench, first)

    assert bench.log.recovery_point == 2
    assert bench.log.flush_job() is None
