"""A directory of logs: identity, clean stops, coming and going of logs."""

from __future__ import annotations

from uuid import UUID

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

from tidelog.model.errors import ConfigError, DiskError, Refusal
from tidelog.model.ids import METADATA_TOPIC, TopicPartition
from tidelog.model.time import Now
from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import AcceptedBatch
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.disk_operation import Appended as BytesAppended
from tidelog.simulator.disk.disk_operation import FileRemoved, FileSynced, Operation, Renamed
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import (
    HIGH_WATERMARKS,
    RECOVERY_POINTS,
)
from tidelog.storage.identity import DirectoryIdentity
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory


@pytest.fixture
def files() -> MemoryFileSystem:
    return formatted()


def test_a_directory_that_is_not_formatted_is_refused() -> None:
    files = MemoryFileSystem()
    files.make_directory(PATH)

    with pytest.raises(ConfigError):
        LogDirectory(files, PATH, Dice())


def test_logs_come_back_after_a_clean_stop_with_all_that_was_written_down(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    assert not directory.was_clean
    create(directory, ORDERS, 3)
    create(directory, PAYMENTS, 2).raise_start_to(1)
    directory.close(broker_epoch=42, high_watermarks={ORDERS: 3, PAYMENTS: 1})

    directory = started(files)

    assert directory.was_clean
    assert directory.previous_broker_epoch == 42
    assert directory.identity == DirectoryIdentity("cluster", 1, UUID(int=500))
    assert {name: log.end_offset for name, log in directory.logs.items()} == {
        ORDERS: 3,
        PAYMENTS: 2,
    }
    assert directory.logs[PAYMENTS].start_offset == 1
    assert directory.logs[ORDERS].topic_id == UUID(int=7)
    assert directory.high_watermarks == {ORDERS: 3, PAYMENTS: 1}


def test_the_mark_of_a_clean_stop_is_gone_for_good_before_any_log_is_loaded(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 1)
    directory.close()
    assert files.exists(MARKER)
    directory = LogDirectory(files, PATH, Dice())

    directory.begin()

    assert not after_crash(files, data_lost, names_undone).exists(MARKER)
    directory.load(NOW, lambda _: LogConfig())
    assert not started(after_crash(files)).was_clean


def test_the_mark_comes_after_everything_else_of_a_clean_stop(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 1)
    before = len(files.trace)
    directory.close(7, {ORDERS: 1})

    def is_marker(operation: Operation) -> bool:
        return MARKER in operation.path

    trace = files.trace[before:]
    first = next(at for at, operation in enumerate(trace) if is_marker(operation))
    assert all(is_marker(operation) or operation.path == PATH for operation in trace[first:])
    assert any(f"{RECOVERY_POINTS}" in operation.path for operation in trace[:first])
    assert checkpoint(files, RECOVERY_POINTS) == {ORDERS: 1}


def test_a_stop_before_all_was_loaded_is_not_a_clean_one(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 1)
    directory.close()
    directory = LogDirectory(files, PATH, Dice())
    directory.begin()

    directory.close()

    assert not files.exists(MARKER)


def test_a_stop_after_a_failure_is_not_a_clean_one(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 1)
    files.fail_when(lambda operation: isinstance(operation, FileSynced), "I/O error")
    with pytest.raises(DiskError):
        log.sync()
    files.heal()
    assert directory.offline_reason is not None

    directory.close(1, {ORDERS: 1})

    assert not files.exists(MARKER)
    assert checkpoint(files, HIGH_WATERMARKS) == {}
    assert started(files).logs[ORDERS].end_offset == 1


def test_a_failure_while_closing_is_noted_and_leaves_no_mark(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 1)
    files.fail_when(lambda operation: isinstance(operation, FileSynced), "I/O error")

    directory.close()

    assert directory.offline_reason is not None
    files.heal()
    assert not files.exists(MARKER)


def test_one_failing_log_takes_the_others_of_its_directory_offline(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 1)
    other = create(directory, PAYMENTS, 1)
    files.fail_when(
        lambda operation: isinstance(operation, BytesAppended) and "orders" in operation.path
    )
    data = build_batch([NewRecord(None, b"value", 0)])
    batch = AcceptedBatch(read_header(data), memoryview(data))

    assert isinstance(log.append_as_leader(batch, 0, NOW), Refusal)
    assert isinstance(other.append_as_leader(batch, 0, NOW), Refusal)
    assert "No space left" in (directory.offline_reason or "")


# Coming and going


def test_a_deleted_log_is_out_of_service_at_once_and_gone_after_the_delay(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 2)
    found = log.read(0, 1 << 20, 2)
    assert found is not None

    directory.delete_log(ORDERS, NOW)

    assert ORDERS not in directory.logs
    [name] = [name for name in files.list(PATH) if name.endswith("-delete")]
    assert name == f"orders-0.{UUID(int=1).hex}-delete"
    assert len(found.read()) == found.length
    create(directory, ORDERS, 1)
    directory.sweep(Now(99, 0))
    assert name in files.list(PATH)
    directory.sweep(Now(100, 0))
    assert name not in files.list(PATH)
    assert directory.logs[ORDERS].end_offset == 1


def test_a_log_is_not_removed_while_a_job_makes_it_durable(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 2)
    job = log.flush_job()
    assert job is not None
    directory.delete_log(ORDERS, NOW)
    directory.sweep(Now(100, 0))
    job.run()
    log.flushed(job)
    assert directory.offline_reason is None

    directory.sweep(Now(100, 0))

    assert not any(name.endswith("-delete") for name in files.list(PATH))


def test_a_deletion_that_a_stop_interrupted_goes_on_at_the_next_start(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS, 2)
    directory.delete_log(ORDERS, NOW)

    directory = started(files)

    assert directory.logs == {}
    directory.sweep(NOW)
    assert not any(name.endswith("-delete") for name in files.list(PATH))


def test_long_names_are_cut_to_what_a_file_system_takes(files: MemoryFileSystem) -> None:
    directory = started(files)
    partition = TopicPartition("t" * 249, 12)
    create(directory, partition)

    directory.delete_log(partition, NOW)

    [name] = [name for name in files.list(PATH) if name.endswith("-delete")]
    assert len(name) == 255


def test_a_stray_log_is_kept_under_another_name(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 2)

    path = directory.set_aside_stray(ORDERS)

    assert path == f"{PATH}/orders-0.{UUID(int=1).hex}-stray"
    assert files.size(f"{path}/{0:020d}.log") > 0
    assert ORDERS not in directory.logs
    directory.close()
    assert started(files).logs == {}
    assert files.is_directory(path)


def test_records_of_an_unknown_topic_are_set_aside(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS, 2)
    create(directory, PAYMENTS, 1)
    files.remove(f"{PATH}/orders-0/partition.metadata")

    directory = started(files)

    assert list(directory.logs) == [PAYMENTS]
    assert any(name.endswith("-stray") for name in files.list(PATH))


def test_a_log_that_never_got_a_record_and_has_no_topic_is_removed(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    create(directory, ORDERS)
    files.remove(f"{PATH}/{ORDERS}/partition.metadata")

    directory = started(files)

    assert directory.logs == {}
    assert not any(name.startswith("orders") for name in files.list(PATH))
    create(directory, ORDERS, 1)


def test_an_empty_log_survives_a_clean_stop(files: MemoryFileSystem) -> None:
    directory = started(files)
    create(directory, ORDERS)
    directory.close()

    assert list(started(files).logs) == [ORDERS]


def test_other_directories_and_files_are_left_alone(files: MemoryFileSystem) -> None:
    files.make_directory(f"{PATH}/lost+found")
    files.make_directory(f"{PATH}/orders-0.{'a' * 32}-future")
    files.open(f"{PATH}/orders-1").close()

    directory = started(files)

    assert directory.logs == {}
    assert files.is_directory(f"{PATH}/lost+found")
    assert files.is_directory(f"{PATH}/orders-0.{'a' * 32}-future")


def test_a_directory_in_the_way_of_a_new_log_is_set_aside(files: MemoryFileSystem) -> None:
    directory = started(files)
    files.make_directory(f"{PATH}/orders-0")
    files.open(f"{PATH}/orders-0/{0:020d}.log").append(b"something")

    log = create(directory, ORDERS, 1)

    assert log.end_offset == 1
    assert any(name.endswith("-stray") for name in files.list(PATH))


def test_the_metadata_log_is_kept_apart_but_written_down_and_closed_with_the_others(
    files: MemoryFileSystem,
) -> None:
    directory = started(files)
    log = directory.load_metadata_log(NOW, LogConfig())
    add(log, 5)
    log.sync()
    directory.write_checkpoints({})
    assert checkpoint(files, RECOVERY_POINTS) == {TopicPartition(METADATA_TOPIC, 0): 5}
    directory.close()

    directory = LogDirectory(files, PATH, Dice())
    directory.begin()
    log = directory.load_metadata_log(NOW, LogConfig())
    directory.load(NOW, lambda _: LogConfig())

    assert (log.end_offset, log.recovery_point) == (5, 5)
    assert directory.logs == {}


def test_the_metadata_log_has_a_durable_name_before_anything_is_promised_in_it(
    files: MemoryFileSystem,
) -> None:
    log = started(files).load_metadata_log(NOW, LogConfig())

    assert after_crash(files, data_lost, names_undone).is_directory(log.directory)


def test_a_log_swept_by_its_directory_loses_old_segments(files: MemoryFileSystem) -> None:
    directory = started(files)
    log = create(directory, ORDERS, 1)
    log.roll(NOW)
    add(log)
    log.raise_start_to(1)
    log.delete_expired(NOW, 2)
    removed = [type(operation) for operation in files.trace[-4:]]
    assert Renamed in removed

    directory.sweep(Now(100, 0))

    assert any(isinstance(operation, FileRemoved) for operation in files.trace[-4:])


def test_the_logs_of_a_large_topic_are_removed_bit_by_bit(files: MemoryFileSystem) -> None:
    directory = started(files)
    for index in range(50):
        create(directory, TopicPartition("orders", index))
        directory.delete_log(TopicPartition("orders", index), NOW)

    left = []
    for _ in range(4):
        directory.sweep(Now(100, 0))
        left.append(sum(files.is_directory(f"{PATH}/{name}") for name in files.list(PATH)))

    assert left == [30, 10, 0, 0]
