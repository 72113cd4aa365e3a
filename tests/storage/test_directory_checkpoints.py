"""What is written down about the logs of a directory, durably and on the spot."""

from __future__ import annotations

import pytest
from tests.storage.log_directories import (
    MARKER,
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
from tidelog.simulator.disk.crash import after_crash
from tidelog.simulator.disk.disk_operation import Renamed
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory

METADATA = TopicPartition(METADATA_TOPIC, 0)


@pytest.fixture
def files() -> MemoryFileSystem:
    return formatted()


def test_checkpoints_hold_what_is_durable_and_what_differs_from_the_files(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    create(directory, PAYMENTS, 2).raise_start_to(1)
    log.sync()
    add(log)

    directory.write_checkpoints({ORDERS: 2})

    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 4, PAYMENTS: 0}
    assert checkpoint(files, LOG_STARTS) == {PAYMENTS: 1}
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 2}


def test_checkpoints_are_written_only_when_something_changed(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 1)
    directory.write_checkpoints({ORDERS: 1})
    operations = files.operation_count

    directory.write_checkpoints({ORDERS: 1})
    assert files.operation_count == operations
    directory.write_checkpoints({ORDERS: 0})
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 0}


def test_a_truncation_lowers_what_is_on_disk_first(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.raise_start_to(3)
    log.sync()
    directory.write_checkpoints({})
    before = len(files.trace)

    log.truncate_to(2, NOW)

    paths = [operation.path for operation in files.trace[before:]]
    cut = paths.index(f"{PATH}/orders-0/{0:020d}.log")
    assert paths.index(f"{PATH}/{RECOVERY_POINTS}.tmp") < cut
    assert paths.index(f"{PATH}/{LOG_STARTS}.tmp") < cut
    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 0}
    assert checkpoint(files, LOG_STARTS) == {ORDERS: 2}


def test_a_truncation_above_what_is_on_disk_writes_no_checkpoint(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    before = len(files.trace)

    log.truncate_to(2, NOW)

    assert not any(RECOVERY_POINTS in operation.path for operation in files.trace[before:])


@pytest.mark.parametrize("content", [b"", b"garbage", b"0\n5\n", b"9\n0\n"])
@pytest.mark.parametrize("name", [RECOVERY_POINTS, LOG_STARTS, HIGH_WATERMARKS])
@pytest.mark.parametrize("clean", [True, False])
def test_unreadable_checkpoints_never_keep_a_log_from_starting(
    files: MemoryFileSystem, name: str, content: bytes, clean: bool
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 4)
    log.raise_start_to(2)
    directory.close(0, {ORDERS: 3})
    if not clean:
        files.remove(MARKER)
    files.remove(f"{PATH}/{name}")
    files.open(f"{PATH}/{name}").append(content)

    directory = started(files)

    log = directory.logs[ORDERS]
    assert log.end_offset == 4
    assert log.start_offset == (0 if name == LOG_STARTS else 2)
    assert directory.high_watermarks == ({} if name == HIGH_WATERMARKS else {ORDERS: 3})


def test_a_stop_before_all_was_loaded_keeps_what_is_written_down(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 3).raise_start_to(2)
    add(directory.load_metadata_log(NOW, LogConfig()))
    directory.close(high_watermarks={ORDERS: 3})

    directory = LogDirectory(files, PATH, Dice())
    directory.begin()
    directory.load_metadata_log(NOW, LogConfig()).truncate_fully_and_start_at(9, NOW)
    directory.close(high_watermarks={})

    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 3, METADATA: 9}
    assert checkpoint(files, LOG_STARTS) == {ORDERS: 2}
    assert checkpoint(files, HIGH_WATERMARKS) == {ORDERS: 3}
    assert started(files).logs[ORDERS].start_offset == 2


def test_a_new_log_has_nothing_from_a_deleted_one_of_the_same_name(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, PAYMENTS, 1)
    log = create(directory, ORDERS, 5)
    log.raise_start_to(4)
    directory.load_metadata_log(NOW, LogConfig())
    log.sync()
    directory.write_checkpoints({ORDERS: 5, PAYMENTS: 1})
    directory.delete_log(ORDERS, NOW)
    create(directory, ORDERS, 2)

    survivor = started(after_crash(files))

    assert survivor.logs[ORDERS].start_offset == 0
    assert survivor.logs[ORDERS].end_offset == 2
    assert survivor.logs[ORDERS].damage == []
    assert survivor.high_watermarks == {PAYMENTS: 1}
    assert METADATA in checkpoint(files, RECOVERY_POINTS)


def test_new_logs_cost_no_checkpoint_but_for_the_first_of_a_name_that_was_deleted(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    names = [TopicPartition("orders", index) for index in range(3)]
    for name in names:
        create(directory, name, 1)
    directory.write_checkpoints({})
    for name in names:
        directory.delete_log(name, NOW)
    before = len(files.trace)

    for name in names:
        create(directory, name)

    written = [
        operation.path
        for operation in files.trace[before:]
        if isinstance(operation, Renamed) and RECOVERY_POINTS in operation.path
    ]
    assert len(written) == 1


# By jobs
