from __future__ import annotations

from tidelog.simulator.disk.crash import after_crash, data_lost
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import LazyFile, read_all

PATH = "/log/a.index"


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return files


def test_a_file_that_is_not_there_is_empty_and_stays_away() -> None:
    files = disk()
    file = LazyFile(files, PATH)

    assert file.size() == 0
    assert file.read_all() == file.read_tail(8) == b""
    file.truncate(0)
    file.sync()
    file.close()
    file.remove()
    file.rename_to("/log/b.index")
    assert files.list("/log") == []
    assert file.path == "/log/b.index"


def test_only_writing_opens_the_file() -> None:
    files = disk()
    file = LazyFile(files, PATH)
    file.append(b"abc")
    assert file.is_open
    assert (file.size(), file.read_all(), file.read_tail(2)) == (3, b"abc", b"bc")

    file.close()

    assert (file.size(), file.read_all(), file.read_tail(2)) == (3, b"abc", b"bc")
    assert file.read_tail(10) == b"abc"
    assert not file.is_open


def test_a_cut_keeps_what_is_short_enough() -> None:
    files = disk()
    file = LazyFile(files, PATH)
    file.append(b"abc")
    file.close()

    file.truncate(3)
    assert not file.is_open
    file.truncate(2)
    file.append(b"X")

    assert read_all(files, PATH) == b"abX"


def test_an_expected_file_is_created_once() -> None:
    files = disk()
    file = LazyFile(files, PATH)

    file.ensure_exists()
    count = files.operation_count
    file.ensure_exists()

    assert files.size(PATH) == 0
    assert files.operation_count == count


def test_syncing_makes_what_was_appended_durable() -> None:
    files = disk()
    file = LazyFile(files, PATH)
    file.append(b"abc")
    file.sync()
    file.append(b"def")

    assert read_all(after_crash(files, data_lost), PATH) == b"abc"


def test_an_open_file_is_renamed_and_removed_like_a_closed_one() -> None:
    files = disk()
    file = LazyFile(files, PATH)
    file.append(b"abc")

    file.rename_to(PATH + ".deleted")
    file.append(b"d")
    assert read_all(files, PATH + ".deleted") == b"abcd"
    file.remove()

    assert not file.is_open
    assert files.list("/log") == []
