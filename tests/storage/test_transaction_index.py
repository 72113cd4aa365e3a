from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import InvariantBroken
from tidelog.simulator.disk.crash import after_crash, data_lost
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.transaction_index import ENTRY, AbortedTransaction, TransactionIndex

PATH = "/log/00000000000000000000.txnindex"
FIRST = AbortedTransaction(7, 10, 20, 15)
SECOND = AbortedTransaction(8, 15, 30, 31)
THIRD = AbortedTransaction(7, 40, 50, 45)


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    return files


def index_of(files: MemoryFileSystem, *aborted: AbortedTransaction) -> TransactionIndex:
    index = TransactionIndex(files, PATH)
    for transaction in aborted:
        index.append(transaction)
    return index


def put(files: MemoryFileSystem, content: bytes) -> None:
    file = files.open(PATH)
    file.append(content)
    file.close()


def test_an_entry_is_thirty_four_bytes_of_version_zero() -> None:
    files = disk()
    index_of(files, FIRST)

    expected = "0000" + "".join(f"{number:016x}" for number in (7, 10, 20, 15))
    assert read_all(files, PATH).hex() == expected


def test_there_is_no_file_before_the_first_aborted_transaction() -> None:
    files = disk()
    index = TransactionIndex(files, PATH)

    assert index.collect(0, 100).transactions == []
    assert index.sane()
    index.truncate_to(0)
    index.reset()
    index.sync()
    assert not files.exists(PATH)


def test_a_search_finds_what_touches_the_range() -> None:
    index = index_of(disk(), FIRST, SECOND, THIRD)

    assert index.collect(0, 10) == ([], True)
    assert index.collect(0, 11) == ([FIRST], True)
    assert index.collect(20, 31) == ([FIRST, SECOND], True)
    assert index.collect(21, 100) == ([SECOND, THIRD], False)
    assert index.collect(51, 100) == ([], False)


def test_a_search_ends_with_the_entry_behind_which_nothing_can_follow() -> None:
    index = index_of(disk(), FIRST, SECOND, THIRD)

    assert index.collect(0, 15).complete
    assert index.collect(0, 45).complete
    assert not index.collect(0, 46).complete


def test_markers_out_of_order_are_a_bug() -> None:
    index = index_of(disk(), SECOND)

    with pytest.raises(InvariantBroken):
        index.append(FIRST)


def test_truncation_drops_transactions_whose_marker_goes() -> None:
    files = disk()
    index = index_of(files, FIRST, SECOND, THIRD)

    index.truncate_to(30)

    assert list(TransactionIndex(files, PATH).entries()) == [FIRST]
    index.append(SECOND)
    assert list(TransactionIndex(files, PATH).entries()) == [FIRST, SECOND]
    index.reset()
    assert files.size(PATH) == 0
    assert len(index) == 0


def test_what_was_closed_is_read_again() -> None:
    index = index_of(disk(), FIRST)
    index.close()

    index.append(SECOND)

    assert list(index.entries()) == [FIRST, SECOND]


@pytest.mark.parametrize(
    "content",
    [
        bytes(33),
        ENTRY.pack(0, *FIRST) + bytes(3),
        ENTRY.pack(1, *FIRST),
        ENTRY.pack(0, *SECOND) + ENTRY.pack(0, *FIRST),
        ENTRY.pack(0, 7, 21, 20, 22),
        ENTRY.pack(0, *FIRST) + bytes(34),
    ],
)
def test_a_file_that_cannot_be_an_index_is_noticed(content: bytes) -> None:
    files = disk()
    put(files, content)

    assert not TransactionIndex(files, PATH).sane()


def test_a_marker_below_the_segment_is_noticed() -> None:
    index = index_of(disk(), FIRST)

    assert index.sane(base_offset=20)
    assert not index.sane(base_offset=21)


def test_synced_entries_survive() -> None:
    files = disk()
    index = index_of(files, FIRST)
    index.sync()
    index.append(SECOND)

    after = after_crash(files, data_lost)

    assert list(TransactionIndex(after, PATH).entries()) == [FIRST]


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(1, 20)), max_size=20),
    st.integers(0, 400),
    st.integers(0, 60),
)
def test_a_search_agrees_with_looking_at_every_transaction(
    steps: list[tuple[int, int, int]], fetch_offset: int, length: int
) -> None:
    marker, aborted = 0, []
    for producer_id, age, gap in steps:
        marker += gap
        aborted.append(AbortedTransaction(producer_id, max(0, marker - age), marker, marker + 1))
    files = disk()
    index_of(files, *aborted).close()
    bound = fetch_offset + length

    found = TransactionIndex(files, PATH).collect(fetch_offset, bound)

    ended = [n for n, entry in enumerate(aborted) if entry.last_stable_offset >= bound]
    seen = aborted[: ended[0] + 1] if ended else aborted
    assert found.complete == bool(ended)
    assert found.transactions == [
        entry for entry in seen if entry.last_offset >= fetch_offset and entry.first_offset < bound
    ]
