from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import DiskError, InvariantBroken
from tidelog.simulator.disk.crash import after_crash, data_lost
from tidelog.simulator.disk.disk_operation import Appended
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.offset_index import OffsetIndex

PATH = "/log/00000000000000000100.index"
BASE = 100


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return files


def index_of(
    files: MemoryFileSystem, *entries: tuple[int, int], max_bytes: int = 80
) -> OffsetIndex:
    index = OffsetIndex(files, PATH, BASE, max_bytes)
    for offset, position in entries:
        index.append(offset, position)
    return index


def put(files: MemoryFileSystem, content: bytes) -> None:
    file = files.open(PATH)
    file.append(content)
    file.close()


def test_an_entry_is_eight_bytes_relative_offset_and_position() -> None:
    files = disk()
    index_of(files, (105, 4200), (2**31 + 99, 2**31 - 1))

    assert read_all(files, PATH).hex() == "0000000500001068" + "7fffffff7fffffff"


def test_a_lookup_finds_the_greatest_entry_not_above_the_offset() -> None:
    index = index_of(disk(), (105, 4200), (110, 8400))

    assert index.lookup(99) == (100, 0)
    assert index.lookup(104) == (100, 0)
    assert index.lookup(105) == (105, 4200)
    assert index.lookup(109) == (105, 4200)
    assert index.lookup(10_000) == (110, 8400)
    assert index.last() == (110, 8400)


def test_the_end_of_a_slice_of_the_log_is_bounded_by_the_entry_behind_it() -> None:
    index = index_of(disk(), (105, 4200), (110, 8400))

    assert index.first_at_or_past(0) == (105, 4200)
    assert index.first_at_or_past(4201) == (110, 8400)
    assert index.first_at_or_past(8401) is None


def test_an_empty_index_points_to_the_start_of_the_segment() -> None:
    files = disk()
    index = index_of(files)

    assert index.lookup(500) == index.last() == (100, 0)
    assert index.sane()
    assert len(index) == 0
    assert not files.exists(PATH)


def test_no_descriptor_is_held_before_the_first_append() -> None:
    files = disk()
    index_of(files, (105, 4200)).close()
    index = OffsetIndex(files, PATH, BASE)

    assert index.lookup(200) == (105, 4200)
    assert not index.file.is_open
    index.append(110, 8400)
    assert index.file.is_open
    index.close()
    assert not index.file.is_open
    assert list(index.entries()) == [(105, 4200), (110, 8400)]


@pytest.mark.parametrize("entry", [(105, 9000), (104, 9000), (120, 4200), (100 + 2**31, 9000)])
def test_entries_out_of_order_are_a_bug(entry: tuple[int, int]) -> None:
    index = index_of(disk(), (105, 4200))

    with pytest.raises(InvariantBroken):
        index.append(*entry)


def test_an_entry_below_the_base_offset_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        index_of(disk(), (99, 10))


def test_an_index_is_full_at_the_size_it_was_given() -> None:
    index = index_of(disk(), (101, 10), max_bytes=23)

    assert not index.is_full
    index.append(102, 20)
    assert index.is_full


def test_truncation_drops_every_entry_at_or_above_the_offset() -> None:
    files = disk()
    index = index_of(files, (105, 4200), (110, 8400), (115, 12600))

    index.truncate_to(110)

    assert list(index.entries()) == [(105, 4200)]
    assert files.size(PATH) == 24, "the file keeps them until the index is settled"
    index.settle()
    assert files.size(PATH) == 8
    index.append(108, 8400)
    assert list(OffsetIndex(files, PATH, BASE).entries()) == [(105, 4200), (108, 8400)]


def test_entries_that_come_back_as_they_were_are_never_missing_from_the_file() -> None:
    files = disk()
    entries = [(105, 4200), (110, 8400), (115, 12600)]
    index = index_of(files, *entries)
    before = len(files.trace)

    index.begin_anew()
    for entry in entries:
        index.append(*entry)
    index.settle()

    assert files.trace[before:] == []
    assert list(OffsetIndex(files, PATH, BASE).entries()) == entries


def test_an_index_that_is_closed_before_it_is_settled_is_what_the_file_says() -> None:
    files = disk()
    index = index_of(files, (105, 4200))
    index.begin_anew()
    index.close()

    index.append(110, 8400)

    assert list(OffsetIndex(files, PATH, BASE).entries()) == [(105, 4200), (110, 8400)]


def test_an_index_that_begins_anew_and_gets_no_entry_is_an_empty_file() -> None:
    files = disk()
    index = index_of(files, (105, 4200))
    index.close()

    index.begin_anew()
    index.settle()

    assert files.size(PATH) == 0
    assert list(index.entries()) == []
    index.append(101, 5)
    assert index.lookup(102) == (101, 5)


def test_an_index_that_is_expected_to_be_there_can_be_made_empty() -> None:
    files = disk()
    index = index_of(files)

    index.file.ensure_exists()

    assert files.size(PATH) == 0
    assert not index.file.is_open


@pytest.mark.parametrize(
    "content",
    [
        bytes(7),
        bytes(9),
        bytes.fromhex("0000000500001068") + bytes(8),
        bytes.fromhex("0000000500001068" * 2),
        bytes.fromhex("0000000500001068" + "0000000600001068"),
        bytes.fromhex("8000000500001068"),
        bytes.fromhex("0000000580001068"),
    ],
)
def test_a_file_that_cannot_be_an_index_is_noticed(content: bytes) -> None:
    files = disk()
    put(files, content)

    assert not OffsetIndex(files, PATH, BASE).sane()


def test_half_an_entry_at_the_end_is_not_continued() -> None:
    files = disk()
    put(files, bytes.fromhex("0000000500001068" + "000000"))
    index = OffsetIndex(files, PATH, BASE)

    index.append(110, 8400)

    assert index.sane()
    assert list(OffsetIndex(files, PATH, BASE).entries()) == [(105, 4200), (110, 8400)]


def test_a_failed_write_adds_no_entry() -> None:
    files = disk()
    index = index_of(files, (105, 4200))
    files.fail_when(lambda operation: isinstance(operation, Appended))

    with pytest.raises(DiskError):
        index.append(110, 8400)

    assert list(index.entries()) == [(105, 4200)]


def test_synced_entries_survive() -> None:
    files = disk()
    index = index_of(files, (105, 4200))
    index.sync()
    index.append(110, 8400)

    after = after_crash(files, data_lost)

    assert list(OffsetIndex(after, PATH, BASE).entries()) == [(105, 4200)]


def test_an_index_goes_by_the_name_it_was_given_last() -> None:
    files = disk()
    index = index_of(files, (105, 4200))

    index.file.rename_to(PATH + ".deleted")
    files.rename("/log", "/gone")
    index.file.moved_to("/gone/00000000000000000100.index.deleted")
    index.close()

    assert index.lookup(105) == (105, 4200)
    index.file.remove()
    assert files.list("/gone") == []


ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=60).map(
    lambda steps: [
        (BASE + sum(o for o, _ in steps[: n + 1]), sum(p for _, p in steps[: n + 1]))
        for n in range(len(steps))
    ]
)


@settings(max_examples=examples(200), deadline=None)
@given(ENTRIES, st.lists(st.integers(90, 1500), max_size=8), st.booleans())
def test_an_index_agrees_with_a_list_of_its_entries(
    entries: list[tuple[int, int]], cuts: list[int], reopen: bool
) -> None:
    files = disk()
    index = index_of(files, *entries, max_bytes=1 << 20)
    model = list(entries)
    for cut in [2000, *cuts]:
        if reopen:
            index = OffsetIndex(files, PATH, BASE)
        index.truncate_to(cut)
        index.settle()
        model = [entry for entry in model if entry[0] < cut]
        assert list(index.entries()) == model
        assert index.last() == (model[-1] if model else (BASE, 0))
        for target in range(cut - 60, cut + 60):
            below = [entry for entry in model if entry[0] <= target]
            assert index.lookup(target) == (below[-1] if below else (BASE, 0))
        assert index.sane()
        assert (files.size(PATH) if files.exists(PATH) else 0) == 8 * len(model)
