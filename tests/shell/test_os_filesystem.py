from __future__ import annotations

import errno
import os
import resource
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tidelog.model.errors import DiskError, InvariantBroken
from tidelog.shell.descriptors import raise_descriptor_limit
from tidelog.shell.os_errors import disk_error
from tidelog.shell.os_filesystem import OsFileSystem
from tidelog.storage.filesystem import (
    File,
    FileMissing,
    FileSystem,
    read_all,
    write_atomically,
)


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path)


@pytest.fixture
def files() -> OsFileSystem:
    return OsFileSystem()


def test_it_is_a_file_system(files: OsFileSystem, root: str) -> None:
    port: FileSystem = files
    file: File = port.open(f"{root}/a")
    assert file.size() == 0
    file.close()


def test_what_was_appended_is_read_back(files: OsFileSystem, root: str) -> None:
    file = files.open(f"{root}/a")
    file.append(b"one")
    file.append(b"two", bytearray(b"three"), memoryview(b"four"))

    assert file.size() == 15
    assert file.read(0, 100) == b"onetwothreefour"
    assert file.read(3, 3) == b"two"
    assert file.read(14, 5) == b"r"
    assert file.read(15, 5) == b""
    assert file.read(99, 5) == b""
    file.close()
    assert files.size(f"{root}/a") == 15


def test_more_buffers_than_one_call_takes_are_all_written(files: OsFileSystem, root: str) -> None:
    file = files.open(f"{root}/a")
    file.append(b"start")
    file.append(*[b"%04d" % number for number in range(2000)])
    assert file.read(0, 9) == b"start0000"
    assert file.read(5 + 4 * 1999, 10) == b"1999"
    file.close()


def test_a_cut_file_goes_on_at_its_new_end(files: OsFileSystem, root: str) -> None:
    file = files.open(f"{root}/a")
    file.append(b"abcdef")
    file.truncate(2)
    file.append(b"X")
    assert file.read(0, 10) == b"abX"
    with pytest.raises(InvariantBroken):
        file.truncate(9)
    file.close()


def test_opening_a_name_twice_gives_the_same_file(files: OsFileSystem, root: str) -> None:
    first = files.open(f"{root}/a")
    second = files.open(f"{root}/a")
    first.append(b"abc")
    assert second.size() == 3
    first.close()
    assert second.read(0, 3) == b"abc"
    second.close()
    with pytest.raises(InvariantBroken):
        second.close()
    assert files.open_descriptors == 0


def test_a_renamed_file_goes_on_under_its_new_name(files: OsFileSystem, root: str) -> None:
    file = files.open(f"{root}/a")
    file.append(b"abc")
    files.rename(f"{root}/a", f"{root}/b")

    assert file.path == f"{root}/b"
    file.append(b"d")
    assert read_all(files, f"{root}/b") == b"abcd"
    file.close()


def test_files_of_a_renamed_directory_know_where_they_are(root: str) -> None:
    files = OsFileSystem(max_descriptors=1)
    files.make_directory(f"{root}/orders-0")
    files.make_directory(f"{root}/orders-00")
    inside = [files.open(f"{root}/orders-0/{number}") for number in range(3)]
    neighbour = files.open(f"{root}/orders-00/0")
    files.rename(f"{root}/orders-0", f"{root}/orders-0.abc-delete")

    for number, file in enumerate(inside):
        assert file.path == f"{root}/orders-0.abc-delete/{number}"
        file.append(b"abc")
        file.close()
    assert neighbour.path == f"{root}/orders-00/0"
    neighbour.close()


def test_a_replaced_file_stays_readable_for_its_users(files: OsFileSystem, root: str) -> None:
    old = files.open(f"{root}/a")
    old.append(b"old")
    write_atomically(files, f"{root}/a", b"new")

    assert old.read(0, 3) == b"old"
    assert read_all(files, f"{root}/a") == b"new"
    old.close()
    assert files.open_descriptors == 0


def test_a_removed_file_stays_readable_for_its_users(root: str) -> None:
    files = OsFileSystem(max_descriptors=1)
    file = files.open(f"{root}/a")
    file.append(b"abc")
    files.open(f"{root}/other").close()
    files.remove(f"{root}/a")

    assert not files.exists(f"{root}/a")
    assert file.read(0, 3) == b"abc"
    other = files.open(f"{root}/other")
    assert file.read(0, 3) == b"abc"
    fresh = files.open(f"{root}/a")
    assert fresh.size() == 0
    for one in (file, other, fresh):
        one.close()


def test_a_removed_directory_leaves_open_files_readable(root: str) -> None:
    files = OsFileSystem(max_descriptors=2)
    files.make_directory(f"{root}/d/e")
    inside = [files.open(f"{root}/d/e/{number}") for number in range(5)]
    for file in inside:
        file.append(file.path.encode())
    files.remove_directory(f"{root}/d")

    assert not files.is_directory(f"{root}/d")
    for file in inside:
        assert file.read(0, 1000) == file.path.encode()
        file.close()
    assert files.open_descriptors == 0


def test_thousands_of_files_need_few_descriptors(root: str) -> None:
    files = OsFileSystem(max_descriptors=8)
    many = [files.open(f"{root}/{number}") for number in range(300)]
    for turn in range(3):
        for number, file in enumerate(many):
            file.append(b"%d:%d;" % (turn, number))
    files.rename(f"{root}/7", f"{root}/seven")

    assert files.open_descriptors <= 8
    for number, file in enumerate(many):
        assert file.read(0, 100) == b"".join(b"%d:%d;" % (turn, number) for turn in range(3))
    for file in many:
        file.close()
    assert files.open_descriptors == 0


def test_a_borrowed_descriptor_is_not_taken_back(root: str) -> None:
    files = OsFileSystem(max_descriptors=1)
    file = files.open(f"{root}/a")
    file.append(b"abc")
    fd = file.borrow_descriptor()
    others = [files.open(f"{root}/{number}") for number in range(10)]

    assert os.pread(fd, 3, 0) == b"abc"
    file.give_descriptor_back()
    for other in (*others, file):
        other.close()


def test_a_file_in_use_elsewhere_stays_open_when_its_owner_closes_it(
    files: OsFileSystem, root: str
) -> None:
    file = files.open(f"{root}/a")
    file.append(b"abc")
    file.hold()
    file.close()
    files.remove(f"{root}/a")
    assert file.read(0, 3) == b"abc"
    file.close()
    assert files.open_descriptors == 0


def test_threads_share_few_descriptors_without_mixing_files_up(root: str) -> None:
    files = OsFileSystem(max_descriptors=2)
    many = [files.open(f"{root}/{number}") for number in range(6)]
    for number, file in enumerate(many):
        file.append(bytes([number]) * 64)
    wrong: list[int] = []

    def use(number: int) -> None:
        for turn in range(300):
            chosen = (number + turn) % 6
            if many[chosen].read(0, 64) != bytes([chosen]) * 64:
                wrong.append(chosen)
            many[chosen].sync()

    threads = [threading.Thread(target=use, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for file in many:
        file.close()


def test_a_missing_file_is_told_apart(files: OsFileSystem, root: str) -> None:
    for ask in (files.size, files.modified_ms, files.remove):
        with pytest.raises(FileMissing, match="ENOENT"):
            ask(f"{root}/none")
    with pytest.raises(FileMissing):
        files.rename(f"{root}/none", f"{root}/b")
    assert files.list(f"{root}/none") == []


def test_a_failed_rename_leaves_the_open_target_as_it_was(files: OsFileSystem, root: str) -> None:
    target = files.open(f"{root}/b")
    target.append(b"kept")
    with pytest.raises(FileMissing):
        files.rename(f"{root}/none", f"{root}/b")
    assert files.open(f"{root}/b") is target
    target.close()
    target.close()


def test_a_file_that_failed_to_sync_once_never_counts_as_synced_again(root: str) -> None:
    files = OsFileSystem(max_descriptors=1)
    os.symlink("/dev/null", f"{root}/log")  # which cannot be synced
    file = files.open(f"{root}/log")
    with pytest.raises(DiskError, match="cannot sync") as first:
        file.sync()
    os.unlink(f"{root}/log")
    other = files.open(f"{root}/other")  # takes the only descriptor
    Path(root, "log").touch()
    with pytest.raises(DiskError) as second:
        file.sync()
    assert str(second.value) == str(first.value)
    other.close()
    file.close()


def test_directories_are_made_listed_and_synced(files: OsFileSystem, root: str) -> None:
    files.make_directory(f"{root}/x/y")
    files.make_directory(f"{root}/x/y")
    files.open(f"{root}/x/b").close()
    files.open(f"{root}/x/a").close()

    assert files.list(f"{root}/x") == ["a", "b", "y"]
    assert files.is_directory(f"{root}/x/y")
    assert files.exists(f"{root}/x/a")
    files.sync_directory(f"{root}/x")
    assert files.modified_ms(f"{root}/x/a") > 1_600_000_000_000


@contextmanager
def files_end_at(size: int) -> Iterator[None]:
    """For no longer than it takes: the file that pytest reports to may be longer."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_an_append_the_disk_refuses_leaves_nothing_behind(files: OsFileSystem, root: str) -> None:
    file = files.open(f"{root}/a")
    with files_end_at(4096):
        file.append(b"x" * 4000)
        with pytest.raises(DiskError, match="EFBIG"):
            file.append(b"y" * 60, b"z" * 60)
        assert file.size() == 4000
        assert files.size(f"{root}/a") == 4000
        file.append(b"y" * 96)
    assert file.size() == 4096
    file.close()


def test_too_many_open_files_makes_files_share(root: str) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = OsFileSystem(max_descriptors=10_000)
    lowest_free = os.dup(0)
    os.close(lowest_free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free + 20, hard))
    try:
        many = [files.open(f"{root}/{number}") for number in range(60)]
        for file in many:
            file.append(b"abc")
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert files.open_descriptors < 60
    assert all(file.read(0, 3) == b"abc" for file in many)
    for file in many:
        file.close()


def test_an_error_names_path_code_and_way_out() -> None:
    full = disk_error("append to", "/d/t-0/0.log", OSError(errno.ENOSPC, "No space left"))
    assert str(full) == (
        "cannot append to /d/t-0/0.log: No space left (ENOSPC); "
        "the disk is full: free space or lower the topics' retention"
    )
    assert "ulimit -n" in str(disk_error("open", "/d", OSError(errno.EMFILE, "Too many")))


def test_the_descriptor_limit_is_raised_as_far_as_allowed() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, soft), hard))
        allowed = raise_descriptor_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == allowed
        assert raise_descriptor_limit() == allowed
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
