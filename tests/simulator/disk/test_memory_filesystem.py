from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.model.errors import DiskError, InvariantBroken
from tidelog.simulator.disk.disk_operation import (
    Appended,
    DirectoryMade,
    DirectoryRemoved,
    DirectorySynced,
    FileCreated,
    FileCut,
    FileRead,
    FileRemoved,
    FileSynced,
    Renamed,
    SyncFailed,
)
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import FileMissing, FileSystem, read_all


def disk_with_directory() -> MemoryFileSystem:
    disk = MemoryFileSystem()
    disk.make_directory("/data/orders-0")
    disk.trace.clear()
    return disk


def write(disk: FileSystem, path: str, content: bytes) -> None:
    file = disk.open(path)
    file.append(content)
    file.close()


def test_a_file_holds_what_was_appended_and_not_what_was_cut() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/orders-0/a.log")

    file.append(b"one", bytearray(b"two"), memoryview(b"three"))
    file.truncate(6)
    file.append(b"!")

    assert file.size() == disk.size("/data/orders-0/a.log") == 7
    assert file.read(0, 100) == b"onetwo!"
    assert file.read(3, 3) == b"two"
    assert file.read(7, 1) == b""
    assert read_all(disk, "/data/orders-0/a.log") == b"onetwo!"


def test_every_open_of_a_file_sees_the_same_bytes() -> None:
    disk = disk_with_directory()
    writer, reader = disk.open("/data/a"), disk.open("/data/a")

    writer.append(b"abc")

    assert reader.read(0, 3) == b"abc"


def test_an_open_file_follows_its_name_and_outlives_it() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/orders-0/a.log")
    file.append(b"abc")

    disk.rename("/data/orders-0", "/data/orders-0.x-delete")
    assert file.path == "/data/orders-0.x-delete/a.log"
    disk.rename(file.path, file.path + ".deleted")
    assert file.path == "/data/orders-0.x-delete/a.log.deleted"
    disk.remove(file.path)

    assert file.read(0, 3) == b"abc"
    assert not disk.exists("/data/orders-0.x-delete/a.log.deleted")


def test_a_relative_path_stays_relative() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("data")
    file = disk.open("data/a")

    assert file.path == "data/a"
    assert disk.exists("/data/a")
    disk.sync_directory("")


def test_a_rename_replaces_a_file_but_never_a_directory() -> None:
    disk = disk_with_directory()
    write(disk, "/data/old", b"old")
    write(disk, "/data/new", b"new")

    disk.rename("/data/new", "/data/old")

    assert read_all(disk, "/data/old") == b"new"
    assert not disk.exists("/data/new")
    with pytest.raises(DiskError, match="is there already"):
        disk.rename("/data/old", "/data/orders-0")
    with pytest.raises(DiskError, match="is there already"):
        disk.rename("/data/orders-0", "/data/old")
    disk.rename("/data/old", "/data/old")
    assert read_all(disk, "/data/old") == b"new"


def test_a_file_can_move_to_another_directory() -> None:
    disk = disk_with_directory()
    write(disk, "/data/a", b"abc")

    disk.rename("/data/a", "/data/orders-0/b")

    assert disk.list("/data") == ["orders-0"]
    assert read_all(disk, "/data/orders-0/b") == b"abc"


def test_names_are_listed_in_order() -> None:
    disk = disk_with_directory()
    for name in ("b", "a", "c"):
        write(disk, f"/data/{name}", b"")

    assert disk.list("/data") == ["a", "b", "c", "orders-0"]
    assert disk.list("/nothing") == []
    assert disk.list("/data/a") == []


def test_what_is_missing_is_said_to_be_missing() -> None:
    disk = disk_with_directory()

    for act in (disk.size, disk.modified_ms, disk.remove, disk.remove_directory):
        with pytest.raises(FileMissing):
            act("/data/none")
    with pytest.raises(FileMissing):
        disk.open("/none/a")
    with pytest.raises(FileMissing):
        disk.rename("/data/none", "/data/other")
    with pytest.raises(FileMissing):
        disk.sync_directory("/none")
    with pytest.raises(FileMissing):
        read_all(disk, "/data/none")


def test_a_directory_is_not_a_file_and_a_file_is_not_a_directory() -> None:
    disk = disk_with_directory()
    write(disk, "/data/a", b"")

    with pytest.raises(DiskError, match="is a directory"):
        disk.open("/data")
    with pytest.raises(DiskError, match="is a directory"):
        disk.size("/data")
    with pytest.raises(DiskError, match="not a directory"):
        disk.make_directory("/data/a/b")
    with pytest.raises(DiskError, match="does not name a file"):
        disk.rename("/data/a", "/")
    assert disk.is_directory("/data")
    assert not disk.is_directory("/data/a")
    assert not disk.exists("/data/a/b")


def test_files_are_stamped_with_the_time_the_disk_was_given() -> None:
    disk = disk_with_directory()
    disk.wall_ms = 5
    file = disk.open("/data/a")
    assert disk.modified_ms("/data/a") == 5

    disk.wall_ms = 7
    file.append(b"abc")
    assert disk.modified_ms("/data/a") == 7
    disk.wall_ms = 9
    file.truncate(1)
    assert disk.modified_ms("/data/a") == 9
    disk.wall_ms = 11
    file.sync()
    assert disk.modified_ms("/data/a") == 9


def test_using_a_closed_file_is_a_bug() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/a")
    file.close()

    with pytest.raises(InvariantBroken):
        file.append(b"abc")


def test_a_file_cannot_be_cut_to_more_than_it_has() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/a")

    with pytest.raises(InvariantBroken):
        file.truncate(1)


def test_the_trace_tells_everything_that_changed_the_disk() -> None:
    disk = MemoryFileSystem()
    disk.make_directory("/data/x")
    file = disk.open("/data/x/a")
    file.append(b"ab", b"c")
    file.read(0, 3)
    file.truncate(2)
    file.sync()
    disk.rename("/data/x/a", "/data/x/b")
    disk.sync_directory("/data/x")
    file.append(b"d")
    disk.remove_directory("/data/x")

    assert disk.trace == [
        DirectoryMade("/data"),
        DirectoryMade("/data/x"),
        FileCreated("/data/x/a", 1),
        Appended("/data/x/a", 1, 0, b"abc"),
        FileCut("/data/x/a", 1, 2),
        FileSynced("/data/x/a", 1),
        Renamed("/data/x/a", "/data/x/b"),
        DirectorySynced("/data/x"),
        Appended("/data/x/b", 1, 2, b"d"),
        FileRemoved("/data/x/b"),
        DirectoryRemoved("/data/x"),
    ]
    assert disk.operation_count == len(disk.trace)
    assert disk.list("/data") == []


def test_a_disk_without_trace_only_counts() -> None:
    disk = MemoryFileSystem(record_trace=False)
    disk.make_directory("/data")
    write(disk, "/data/a", b"abc")

    assert disk.trace == []
    assert disk.operation_count == 3
    assert read_all(disk, "/data/a") == b"abc"


def test_a_failing_operation_changes_nothing_and_is_not_in_the_trace() -> None:
    disk = disk_with_directory()
    write(disk, "/data/a", b"abc")
    before = list(disk.trace)
    disk.fail_when(lambda operation: True)

    failing: list[Callable[[], None]] = [
        lambda: disk.open("/data/new").close(),
        lambda: disk.open("/data/a").append(b"d"),
        lambda: disk.open("/data/a").truncate(0),
        lambda: disk.rename("/data/a", "/data/b"),
        lambda: disk.remove("/data/a"),
        lambda: disk.make_directory("/data/x"),
        lambda: disk.remove_directory("/data/orders-0"),
        lambda: disk.sync_directory("/data"),
    ]
    for act in failing:
        with pytest.raises(DiskError, match="No space left on device"):
            act()

    disk.heal()
    assert disk.trace == before
    assert disk.list("/data") == ["a", "orders-0"]
    assert read_all(disk, "/data/a") == b"abc"


def test_only_the_operations_asked_for_fail() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/a")
    disk.fail_when(lambda operation: isinstance(operation, FileRead), "Input/output error")

    file.append(b"abc")
    with pytest.raises(DiskError, match="/data/a: Input/output error"):
        file.read(0, 3)


def test_the_nth_operation_can_be_made_to_fail() -> None:
    disk = disk_with_directory()
    start = disk.operation_count
    disk.fail_when(lambda _: disk.operation_count == start + 2)
    file = disk.open("/data/a")
    file.append(b"one")

    with pytest.raises(DiskError):
        file.append(b"two")
    assert file.size() == 3


def test_a_failing_append_can_leave_part_of_its_bytes() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/a")
    disk.fail_when(lambda operation: isinstance(operation, Appended), written=2)

    with pytest.raises(DiskError):
        file.append(b"abc")

    assert file.read(0, 10) == b"ab"
    assert disk.trace[-1] == Appended("/data/a", 1, 0, b"ab")


def test_a_failed_sync_is_remembered() -> None:
    disk = disk_with_directory()
    file = disk.open("/data/a")
    file.append(b"abc")
    disk.fail_when(lambda operation: isinstance(operation, FileSynced), "Input/output error")

    with pytest.raises(DiskError):
        file.sync()

    assert disk.trace[-1] == SyncFailed("/data/a", 1)


def test_damage_is_done_behind_the_back_of_the_trace() -> None:
    disk = disk_with_directory()
    write(disk, "/data/a", b"abcdef")
    before = list(disk.trace)

    disk.damage("/data/a", 2, b"XY")

    assert read_all(disk, "/data/a") == b"abXYef"
    assert disk.trace == before
    with pytest.raises(InvariantBroken):
        disk.damage("/data/a", 5, b"XY")
