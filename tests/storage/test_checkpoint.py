from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.ids import TopicPartition
from tidelog.simulator.disk.crash import (
    DataFate,
    after_crash,
    crashes,
    data_kept,
    data_lost,
    data_torn_at,
    names_kept,
    names_undone,
    page_zeroed,
)
from tidelog.simulator.disk.disk_operation import FileRead
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.checkpoint import HIGH_WATERMARKS, OffsetCheckpoint
from tidelog.storage.filesystem import read_all

PATH = f"/data/{HIGH_WATERMARKS}"
OLD = {TopicPartition("orders", 0): 7}
NEW = {TopicPartition("orders", 0): 12345, TopicPartition("__consumer_offsets", 49): 0}


def disk(content: bytes | None = None) -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/data")
    files.sync_directory("/")
    if content is not None:
        file = files.open(PATH)
        file.append(content)
        file.close()
    return files


def test_the_file_has_one_line_per_partition() -> None:
    files = disk()
    OffsetCheckpoint(files, PATH).write(NEW)

    assert read_all(files, PATH) == b"0\n2\n__consumer_offsets 49 0\norders 0 12345\n"
    assert OffsetCheckpoint(files, PATH).read() == NEW


def test_a_file_written_by_kafka_is_read() -> None:
    files = disk(b"0\n2\norders 0 12345\n__consumer_offsets 49 0\n")

    assert OffsetCheckpoint(files, PATH).read() == NEW


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"0\n0\n",
        b"\0" * 4096,
        b"\xff\xff",
        b"1\n0\n",
        b"0\n",
        b"0",
        b"0\n2\norders 0 1\n",
        b"0\n1\norders 0 1\norders 1 1\n",
        b"0\n1\norders 0\n",
        b"0\n1\norders 0 1 1\n",
        b"0\n1\norders zero 1\n",
        b"0\n1\norders 0 -1\n",
        b"0\n1\norders 0 1_000\n",
        b"0\nmany\norders 0 1\n",
        b"0\n1\norders 0 123",
    ],
)
def test_a_file_that_cannot_be_read_in_full_says_nothing(content: bytes | None) -> None:
    assert OffsetCheckpoint(disk(content), PATH).read() == {}


def test_a_disk_that_does_not_answer_says_nothing() -> None:
    files = disk(b"0\n1\norders 0 7\n")
    files.fail_when(lambda operation: isinstance(operation, FileRead))

    assert OffsetCheckpoint(files, PATH).read() == {}


@pytest.mark.parametrize("data", [data_kept, data_lost, page_zeroed(0), data_torn_at(20)])
def test_after_any_crash_the_checkpoint_is_the_old_or_the_new_one(data: DataFate) -> None:
    base = disk()
    OffsetCheckpoint(base, PATH).write(OLD)
    files = after_crash(base, data_lost, names_undone)
    OffsetCheckpoint(files, PATH).write(NEW)

    for names in (names_kept, names_undone):
        *_, last = read = [OffsetCheckpoint(after, PATH).read() for after in crashes(files, data)]
        assert all(offsets in (OLD, NEW) for offsets in read)
        assert last == NEW
        assert OffsetCheckpoint(after_crash(files, data, names), PATH).read() == NEW


@settings(max_examples=examples(100), deadline=None)
@given(
    st.dictionaries(
        st.builds(
            TopicPartition,
            st.text("abcXYZ019._-", min_size=1, max_size=20),
            st.integers(0, 2**31 - 1),
        ),
        st.integers(0, 2**63 - 1),
        max_size=20,
    )
)
def test_what_is_written_is_read_back(offsets: dict[TopicPartition, int]) -> None:
    checkpoint = OffsetCheckpoint(disk(), PATH)

    checkpoint.write(offsets)

    assert checkpoint.read() == offsets


@settings(max_examples=examples(150), deadline=None)
@given(st.binary(max_size=60) | st.text("0123456789 \n-ab", max_size=40).map(str.encode))
def test_no_content_is_a_reason_not_to_start(content: bytes) -> None:
    assert isinstance(OffsetCheckpoint(disk(content), PATH).read(), dict)
