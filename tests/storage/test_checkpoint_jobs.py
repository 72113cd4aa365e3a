"""What is written down about the logs of a directory by jobs, away from the loop."""

from __future__ import annotations

import pytest
from tests.storage.log_directories import (
    NOW,
    ORDERS,
    PATH,
    PAYMENTS,
    Dice,
    add,
    checkpoint,
    create,
    formatted,
    started,
)

from tidelog.model.ids import METADATA_TOPIC, TopicPartition
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.disk.crash import after_crash, data_kept, names_kept, names_undone
from tidelog.simulator.disk.disk_operation import Renamed
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS, CheckpointJob
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory

METADATA = TopicPartition(METADATA_TOPIC, 0)


@pytest.fixture
def files() -> MemoryFileSystem:
    return formatted()


def jobs_of(directory: LogDirectory, **high_watermarks: int) -> list[CheckpointJob]:
    """Jobs for all that changed; the high watermarks stay the same until they have run."""
    names = {"orders": ORDERS, "payments": PAYMENTS}
    true = {names[topic]: high_watermark for topic, high_watermark in high_watermarks.items()}
    return directory.checkpoints.jobs(lambda: true)


def write_down(directory: LogDirectory, **high_watermarks: int) -> None:
    jobs = jobs_of(directory, **high_watermarks)
    for job in jobs:
        job.run()
    directory.checkpoints_written(jobs, None)


def test_jobs_write_and_sync_elsewhere_and_the_loop_only_changes_names(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.raise_start_to(1)
    log.sync()
    before = len(files.trace)

    jobs = jobs_of(directory, orders=3)

    assert len(files.trace) == before
    for job in jobs:
        job.run()
    assert checkpoint(files, RECOVERY_POINTS) == {}
    written = len(files.trace)
    directory.checkpoints_written(jobs, None)
    assert [type(operation) for operation in files.trace[written:]] == [Renamed] * 3
    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 4}
    assert checkpoint(files, LOG_STARTS) == {ORDERS: 1}
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 3}
    assert jobs_of(directory, orders=3) == []


def test_what_a_job_writes_is_there_before_another_job_is_made(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4)
    first = jobs_of(directory, orders=1)

    assert jobs_of(directory, orders=2) == []
    for job in first:
        job.run()
    directory.checkpoints_written(first, None)

    (second,) = jobs_of(directory, orders=2)
    assert second.offsets == {ORDERS: 2}


def test_what_was_written_since_a_job_was_made_is_not_replaced_by_something_older(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    other = create(directory, PAYMENTS, 4)
    other.sync()
    write_down(directory)
    add(log)
    log.sync()
    jobs = jobs_of(directory, orders=2)
    add(log)
    log.sync()
    other.truncate_to(1, NOW)
    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 6, PAYMENTS: 0}

    for job in jobs:
        job.run()
    directory.checkpoints_written(jobs, None)

    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 6, PAYMENTS: 0}
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 2}


def test_jobs_that_were_overtaken_change_nothing(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.sync()
    jobs = jobs_of(directory, orders=4)
    for job in jobs:
        job.run()
    add(log)
    log.sync()
    directory.write_checkpoints({ORDERS: 5})

    directory.checkpoints_written(jobs, None)

    assert checkpoint(files, RECOVERY_POINTS) == checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 5}


@pytest.mark.parametrize("cut_at", ["before the jobs run", "after they ran"])
def test_jobs_that_would_claim_more_than_a_cut_left_change_nothing(
    files: MemoryFileSystem, cut_at: str
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.raise_start_to(3)
    log.sync()
    jobs = jobs_of(directory)
    if cut_at == "before the jobs run":
        log.truncate_to(2, NOW)
    for job in jobs:
        job.run()
    if cut_at == "after they ran":
        log.truncate_to(2, NOW)

    directory.checkpoints_written(jobs, None)

    assert checkpoint(files, RECOVERY_POINTS) == {}
    assert checkpoint(files, LOG_STARTS) == {}


def test_jobs_that_still_know_a_deleted_log_do_not_speak_for_a_new_one(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).sync()
    true = {ORDERS: 4}
    jobs = directory.checkpoints.jobs(lambda: true)
    for job in jobs:
        job.run()
    directory.delete_log(ORDERS, NOW)
    create(directory, ORDERS, 1)
    true = {ORDERS: 0}

    directory.checkpoints_written(jobs, None)

    assert checkpoint(files, RECOVERY_POINTS) == {}
    assert checkpoint(files, HIGH_WATERMARKS) == {}


def test_no_power_cut_brings_back_what_was_said_of_a_deleted_log(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).sync()
    write_down(directory, orders=4)
    files.sync_directory(PATH)
    directory.delete_log(ORDERS, NOW)
    create(directory, PAYMENTS, 2)
    write_down(directory, payments=1)
    assert checkpoint(files, HIGH_WATERMARKS) == {PAYMENTS: 1}
    create(directory, ORDERS, 1)

    for names in (names_kept, names_undone):
        survivor = after_crash(files, data_kept, names)
        assert ORDERS not in checkpoint(survivor, HIGH_WATERMARKS)
        assert checkpoint(survivor, RECOVERY_POINTS).get(ORDERS, 0) == 0


def test_a_deleted_log_is_forgotten_for_good_before_a_new_one_is_on_disk(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).sync()
    write_down(directory, orders=4)
    directory.delete_log(ORDERS, NOW)
    write_down(directory)  # a power cut may still undo this
    before = len(files.trace)

    create(directory, ORDERS)

    paths = [operation.path for operation in files.trace[before:]]
    news = next(at for at, path in enumerate(paths) if path.startswith(f"{PATH}/{ORDERS}"))
    assert f"{PATH}/{RECOVERY_POINTS}.tmp" in paths[:news], paths


def test_a_deleted_log_is_forgotten_for_good_without_waiting_for_the_disk(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).sync()
    write_down(directory, orders=4)
    directory.delete_log(ORDERS, NOW)
    write_down(directory)
    write_down(directory)
    before = len(files.trace)

    create(directory, ORDERS, 1)

    assert not any(RECOVERY_POINTS in operation.path for operation in files.trace[before:])
    survivor = after_crash(files, data_kept, names_undone)
    assert checkpoint(survivor, RECOVERY_POINTS) == {}


@pytest.mark.parametrize("waits_for_disk", [False, True])
def test_to_forget_a_deleted_log_raises_no_high_watermark_that_was_lowered(
    files: MemoryFileSystem, waits_for_disk: bool
) -> None:
    """An unclean election may lower one; until names are durable the higher one may come back."""
    directory = started(files)
    create(directory, ORDERS, 4)
    create(directory, PAYMENTS, 5)
    write_down(directory, orders=4, payments=5)
    write_down(directory, orders=4, payments=3)
    directory.delete_log(ORDERS, NOW)

    if not waits_for_disk:
        forgetting = directory.forgetting(ORDERS)
        assert forgetting is not None
        forgetting.run()
        forgetting.done(None)
    create(directory, ORDERS)

    assert checkpoint(files, HIGH_WATERMARKS) == {PAYMENTS: 3}


def test_a_job_before_all_was_loaded_keeps_what_is_written_down(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 3)
    directory.load_metadata_log(NOW, LogConfig())
    directory.close(high_watermarks={ORDERS: 3})
    directory = LogDirectory(files, PATH, Dice())
    directory.begin()
    log = directory.load_metadata_log(NOW, LogConfig())
    add(log)
    log.sync()

    write_down(directory)

    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 3, METADATA: 1}
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 3}


def test_jobs_that_failed_condemn_the_directory(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4)

    directory.checkpoints_written(jobs_of(directory), "no space left")

    assert directory.offline_reason == "no space left"


def test_a_stop_writes_down_what_no_job_has(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    write_down(directory, orders=1)
    add(log)

    directory.close(high_watermarks={ORDERS: 5})

    survivor = after_crash(files, data_kept, names_undone)
    assert checkpoint(survivor, RECOVERY_POINTS) == {ORDERS: 5}
    assert checkpoint(survivor, HIGH_WATERMARKS) == {ORDERS: 5}


def test_a_log_is_cut_after_jobs_have_lowered_what_is_written_down_and_waits_for_no_disk() -> None:
    files = formatted()
    directory = started(files)
    log = create(directory, ORDERS, 5)
    log.sync()
    directory.write_checkpoints({ORDERS: 5})
    log.first_dirty_offset = 3

    turns = 0
    while (lowering := log.lowering_for_cut(2)) is not None:
        turns += 1
        must_run = True
        while must_run:
            lowering.run()
            must_run = lowering.done(None)
    for names in (names_kept, names_undone):
        disk = after_crash(files, data_kept, names)
        assert checkpoint(disk, RECOVERY_POINTS)[ORDERS] == 0
    syncs = files.sync_count
    assert log.truncate_to(2, NOW)

    assert (turns, files.sync_count) == (1, syncs)
    assert log.end_offset == 2


def test_nothing_is_lowered_where_nothing_is_cut(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.sync()
    write_down(directory, orders=4)
    data = build_batch([NewRecord(None, b"value", 0)], base_offset=4)

    assert log.lowering_for_cut(4) is None
    assert log.lowering_for_fetched(memoryview(data)) is None
    assert log.lowering_for_cut(3) is not None


def test_a_cut_below_all_segments_lowers_the_recovery_point_to_where_the_log_goes_on(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS)
    log.truncate_fully_and_start_at(10, NOW)
    add(log)
    log.sync()
    write_down(directory, orders=11)

    lowering = log.lowering_for_cut(5)

    assert lowering is not None
    lowering.run()
    lowering.done(None)
    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 5}


def test_a_lowering_waits_for_the_checkpoint_job_that_is_under_way() -> None:
    files = formatted()
    directory = started(files)
    log = create(directory, ORDERS, 5)
    log.sync()
    directory.write_checkpoints({ORDERS: 5})
    add(log)
    log.sync()
    (periodic,) = directory.checkpoints.jobs(lambda: {ORDERS: 5})
    periodic.run()

    early = log.lowering_for_cut(2)
    assert early is not None
    early.run()
    assert not early.done(None)
    directory.checkpoints_written([periodic], None)
    later = log.lowering_for_cut(2)
    assert later is not None
    later.run()
    assert later.done(None)
    assert log.lowering_for_cut(2) is not None, "a loss of power could still undo the rename"
    later.run()
    assert not later.done(None)

    assert log.lowering_for_cut(2) is None


def test_what_was_lowered_for_a_cut_stays_low_while_another_log_is_lowered() -> None:
    directory = started(formatted())
    logs = [create(directory, name, 5) for name in (ORDERS, PAYMENTS)]
    for log in logs:
        log.sync()
    directory.write_checkpoints({ORDERS: 5, PAYMENTS: 5})

    for log in logs:
        lowering = log.lowering_for_cut(2)
        assert lowering is not None
        must_run = True
        while must_run:
            lowering.run()
            must_run = lowering.done(None)

    assert [log.lowering_for_cut(2) for log in logs] == [None, None]
    assert all(log.truncate_to(2, NOW) for log in logs)


def test_a_cut_that_was_given_up_is_forgotten_after_two_rounds() -> None:
    files = formatted()
    directory = started(files)
    log = create(directory, ORDERS, 5)
    log.sync()
    directory.write_checkpoints({ORDERS: 5})
    assert log.lowering_for_cut(2) is not None

    for _ in range(3):
        write_down(directory, orders=5)

    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 5}


def test_a_lowering_that_fails_takes_the_directory_offline() -> None:
    directory = started(formatted())
    log = create(directory, ORDERS, 5)
    log.sync()
    directory.write_checkpoints({ORDERS: 5})
    lowering = log.lowering_for_cut(2)
    assert lowering is not None

    assert not lowering.done("no space")

    assert directory.offline_reason == "no space"
