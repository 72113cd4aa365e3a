"""How far logs are cleaned is written down by jobs, and never claims more than is true."""

from __future__ import annotations

import pytest
from tests.storage.log_directories import (
    NOW,
    ORDERS,
    PATH,
    PAYMENTS,
    checkpoint,
    create,
    formatted,
    started,
)

from tidelog.simulator.disk.crash import after_crash, data_kept, names_kept, names_undone
from tidelog.simulator.disk.disk_operation import Renamed
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import FIRST_DIRTY
from tidelog.storage.log_directory import LogDirectory


@pytest.fixture
def files() -> MemoryFileSystem:
    return formatted()


def test_how_far_a_log_was_cleaned_stays_written_down_when_it_is_compacted_no_longer(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3
    create(directory, PAYMENTS, 2)
    write_first_dirty(directory)
    assert checkpoint(files, FIRST_DIRTY) == {ORDERS: 3}


def write_first_dirty(directory: LogDirectory) -> None:
    (job,) = directory.checkpoints.first_dirty_jobs()
    job.run()
    directory.checkpoints_written([job], None)


def test_how_far_logs_are_cleaned_is_written_and_synced_by_a_job_alone(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3
    before = len(files.trace)

    (job,) = directory.checkpoints.first_dirty_jobs()

    assert len(files.trace) == before
    job.run()
    assert checkpoint(files, FIRST_DIRTY) == {}
    written = len(files.trace)
    directory.checkpoints_written([job], None)
    assert [type(operation) for operation in files.trace[written:]] == [Renamed]
    assert checkpoint(files, FIRST_DIRTY) == {ORDERS: 3}
    assert directory.checkpoints.first_dirty_jobs() == []


@pytest.mark.parametrize("cut_at", ["before the job runs", "after it ran"])
def test_a_job_that_would_claim_more_than_a_cut_left_changes_nothing(
    files: MemoryFileSystem, cut_at: str
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.first_dirty_offset = 3
    (job,) = directory.checkpoints.first_dirty_jobs()
    if cut_at == "before the job runs":
        log.truncate_to(2, NOW)
    job.run()
    if cut_at == "after it ran":
        log.truncate_to(2, NOW)

    directory.checkpoints_written([job], None)

    assert checkpoint(files, FIRST_DIRTY) == {}


def test_a_job_that_still_knows_a_deleted_log_changes_nothing(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3
    write_first_dirty(directory)
    create(directory, PAYMENTS, 2).first_dirty_offset = 1
    (job,) = directory.checkpoints.first_dirty_jobs()
    directory.delete_log(ORDERS, NOW)
    create(directory, ORDERS, 4)
    job.run()

    directory.checkpoints_written([job], None)

    assert checkpoint(files, FIRST_DIRTY) == {}


def test_no_power_cut_brings_back_how_far_a_deleted_log_was_cleaned(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3
    write_first_dirty(directory)
    files.sync_directory(PATH)
    directory.delete_log(ORDERS, NOW)
    create(directory, PAYMENTS, 2).first_dirty_offset = 1
    write_first_dirty(directory)
    create(directory, ORDERS, 4)

    for names in (names_kept, names_undone):
        found = checkpoint(after_crash(files, data_kept, names), FIRST_DIRTY)
        assert ORDERS not in found


def test_a_job_that_failed_condemns_the_directory(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3
    (job,) = directory.checkpoints.first_dirty_jobs()

    directory.checkpoints_written([job], "no space left")

    assert directory.offline_reason == "no space left"


def test_a_clean_stop_writes_down_how_far_logs_are_cleaned(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 4).first_dirty_offset = 3

    directory.close()

    assert checkpoint(files, FIRST_DIRTY) == {ORDERS: 3}
