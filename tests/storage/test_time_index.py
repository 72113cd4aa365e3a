from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import InvariantBroken
from tidelog.simulator.disk.crash import after_crash, data_lost
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.time_index import TimeIndex

PATH = "/log/00000000000000000100.timeindex"
BASE = 100


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return files


def index_of(files: MemoryFileSystem, *entries: tuple[int, int], max_bytes: int = 120) -> TimeIndex:
    index = TimeIndex(files, PATH, BASE, max_bytes)
    for timestamp, offset in entries:
        assert index.append_if_later(timestamp, offset)
    return index


def put(files: MemoryFileSystem, content: bytes) -> None:
    file = files.open(PATH)
    file.append(content)
    file.close()


def test_an_entry_is_twelve_bytes_timestamp_and_relative_offset() -> None:
    files = disk()
    index_of(files, (1_700_000_000_000, 105))

    assert read_all(files, PATH).hex() == "0000018bcfe56800" + "00000005"


def test_a_timestamp_that_is_not_later_adds_nothing() -> None:
    index = index_of(disk(), (1000, 105))

    assert not index.append_if_later(1000, 110)
    assert not index.append_if_later(999, 110)
    assert index.append_if_later(1001, 110)
    assert list(index.entries()) == [(1000, 105), (1001, 110)]


def test_a_batch_without_timestamps_adds_nothing() -> None:
    index = index_of(disk())

    assert not index.append_if_later(-1, 105)
    assert index.append_if_later(0, 105)


def test_a_lookup_finds_the_latest_entry_not_after_the_timestamp() -> None:
    index = index_of(disk(), (1000, 105), (2000, 110))

    assert index.lookup(999) == (-1, 100)
    assert index.lookup(1000) == (1000, 105)
    assert index.lookup(1999) == (1000, 105)
    assert index.lookup(2**62) == (2000, 110)


def test_the_last_entry_is_read_without_loading_the_index() -> None:
    files = disk()
    index_of(files, (1000, 105), (2000, 110)).close()

    assert TimeIndex(files, PATH, BASE).last() == (2000, 110)
    index = TimeIndex(files, PATH, BASE)
    assert len(index) == 2
    assert index.last() == (2000, 110)


def test_the_last_entry_of_nothing_is_no_timestamp_at_the_base() -> None:
    files = disk()
    assert TimeIndex(files, PATH, BASE).last() == (-1, 100)
    index = index_of(files)
    assert len(index) == 0
    assert index.last() == (-1, 100)
    put(files, bytes(11))
    assert TimeIndex(files, PATH, BASE).last() == (-1, 100)


def test_half_an_entry_at_the_end_does_not_hide_the_last_whole_one() -> None:
    files = disk()
    index_of(files, (1000, 105), (2000, 110)).close()
    put(files, bytes(5))
    index = TimeIndex(files, PATH, BASE)

    assert not index.sane()
    assert index.last() == (2000, 110)
    index.append_if_later(3000, 115)
    assert list(TimeIndex(files, PATH, BASE).entries()) == [(1000, 105), (2000, 110), (3000, 115)]


def test_one_place_is_kept_for_the_final_entry() -> None:
    index = index_of(disk(), (1, 101), max_bytes=36)

    assert not index.is_full
    index.append_if_later(2, 102)
    assert index.is_full
    assert index.append_if_later(3, 103)


def test_a_later_timestamp_at_an_earlier_offset_is_a_bug() -> None:
    index = index_of(disk(), (1000, 105))

    with pytest.raises(InvariantBroken):
        index.append_if_later(2000, 104)
    with pytest.raises(InvariantBroken):
        index.append_if_later(2000, 100 + 2**31)


def test_truncation_drops_every_entry_at_or_above_the_offset() -> None:
    files = disk()
    index = index_of(files, (1000, 105), (2000, 110))

    index.truncate_to(110)

    assert list(index.entries()) == [(1000, 105)]
    assert files.size(PATH) == 12
    assert index.append_if_later(1500, 110)


def test_reset_leaves_an_empty_file() -> None:
    files = disk()
    index = index_of(files, (1000, 105))

    index.reset()

    assert files.size(PATH) == 0
    assert index.last() == (-1, 100)


@pytest.mark.parametrize(
    "content",
    [
        bytes(11),
        bytes(24),
        bytes.fromhex("00000000000003e8" + "00000005") + bytes(12),
        bytes.fromhex("00000000000003e8" + "00000005" + "00000000000003e9" + "00000004"),
        bytes.fromhex("80000000000003e8" + "00000005"),
        bytes.fromhex("00000000000003e8" + "80000005"),
    ],
)
def test_a_file_that_cannot_be_an_index_is_noticed(content: bytes) -> None:
    files = disk()
    put(files, content)

    assert not TimeIndex(files, PATH, BASE).sane()


def test_synced_entries_survive() -> None:
    files = disk()
    index = index_of(files, (1000, 105))
    index.sync()
    index.append_if_later(2000, 110)

    after = after_crash(files, data_lost)

    assert list(TimeIndex(after, PATH, BASE).entries()) == [(1000, 105)]


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(st.tuples(st.integers(-1, 2000), st.integers(1, 30)), max_size=60),
    st.lists(st.integers(90, 1500), max_size=6),
    st.booleans(),
)
def test_an_index_agrees_with_a_list_of_its_entries(
    batches: list[tuple[int, int]], cuts: list[int], reopen: bool
) -> None:
    files = disk()
    index = index_of(files, max_bytes=1 << 20)
    model: list[tuple[int, int]] = []
    offset = BASE
    for timestamp, records in batches:
        offset += records
        later = timestamp > (model[-1][0] if model else -1)
        assert index.append_if_later(timestamp, offset) == later
        if later:
            model.append((timestamp, offset))
    for cut in [3000, *cuts]:
        if reopen:
            index = TimeIndex(files, PATH, BASE)
        index.truncate_to(cut)
        model = [entry for entry in model if entry[1] < cut]
        assert list(index.entries()) == model
        assert index.last() == (model[-1] if model else (-1, BASE))
        for target in range(0, 2000, 37):
            before = [entry for entry in model if entry[0] <= target]
            assert index.lookup(target) == (before[-1] if before else (-1, BASE))
        assert index.sane()
