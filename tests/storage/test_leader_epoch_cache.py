from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import InvariantBroken
from tidelog.simulator.disk.crash import after_crash, data_lost, names_undone
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.filesystem import read_all
from tidelog.storage.leader_epoch_cache import FILE_NAME, LeaderEpochCache

PATH = f"/log/{FILE_NAME}"


def disk(content: bytes | None = None) -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    files.sync_directory("/")
    if content is not None:
        file = files.open(PATH)
        file.append(content)
        file.close()
    return files


def cache_of(*entries: tuple[int, int]) -> LeaderEpochCache:
    cache = LeaderEpochCache(disk(), PATH)
    for epoch, start_offset in entries:
        cache.assign(epoch, start_offset)
    return cache


def test_the_file_lists_epochs_and_their_start_offsets() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    cache.assign(0, 0)
    cache.assign(3, 120)

    assert read_all(files, PATH) == b"0\n2\n0 0\n3 120\n"
    assert LeaderEpochCache(files, PATH).entries == [(0, 0), (3, 120)]


def test_an_epoch_outlives_the_process_at_once_and_a_power_cut_once_it_is_synced() -> None:
    files = disk()
    epochs = LeaderEpochCache(files, PATH)
    epochs.assign(4, 7)

    assert LeaderEpochCache(files, PATH).entries == [(4, 7)]
    assert epochs.unsynced
    epochs.sync()
    files.sync_directory(PATH.rpartition("/")[0])

    after = after_crash(files, data_lost, names_undone)
    assert LeaderEpochCache(after, PATH).entries == [(4, 7)]


def test_an_epoch_that_is_the_latest_already_is_not_written_again() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    assert cache.assign(1, 10)
    before = files.operation_count

    assert not cache.assign(1, 10)
    assert not cache.assign(1, 5000)
    assert files.operation_count == before


def test_epoch_zero_counts() -> None:
    cache = cache_of((0, 0))

    assert cache.latest_epoch == 0
    assert cache.end_offset_for(0, 10) == (0, 10)


def test_no_epoch_is_nothing_to_note() -> None:
    cache = cache_of((-1, 0))

    assert cache.latest_epoch is None
    assert cache.entries == []


def test_a_start_below_zero_is_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        cache_of((0, -1))


def test_a_new_epoch_replaces_what_it_contradicts() -> None:
    assert cache_of((1, 0), (2, 50), (3, 80), (2, 60)).entries == [(1, 0), (2, 60)]
    assert cache_of((1, 0), (2, 50), (3, 80), (5, 50)).entries == [(1, 0), (5, 50)]
    assert cache_of((1, 0), (2, 50), (2, 40)).entries == [(1, 0), (2, 40)]
    assert cache_of((1, 0), (2, 50), (3, 0)).entries == [(3, 0)]


def test_an_offset_belongs_to_the_last_epoch_that_starts_at_or_below_it() -> None:
    cache = cache_of((1, 10), (4, 50))

    assert cache.epoch_for_offset(9) is None
    assert cache.epoch_for_offset(10) == 1
    assert cache.epoch_for_offset(49) == 1
    assert cache.epoch_for_offset(50) == 4
    assert cache.epoch_for_offset(10_000) == 4


def test_the_end_of_the_latest_epoch_is_the_end_of_the_log() -> None:
    assert cache_of((1, 10), (4, 50)).end_offset_for(4, 99) == (4, 99)


def test_the_end_of_an_epoch_is_the_start_of_the_next_one() -> None:
    cache = cache_of((1, 10), (4, 50), (6, 70))

    assert cache.end_offset_for(1, 99) == (1, 50)
    assert cache.end_offset_for(4, 99) == (4, 70)


def test_the_end_of_an_epoch_nobody_wrote_in_is_that_of_the_one_before() -> None:
    cache = cache_of((1, 10), (4, 50), (6, 70))

    assert cache.end_offset_for(3, 99) == (1, 50)
    assert cache.end_offset_for(5, 99) == (4, 70)


def test_an_epoch_below_all_ends_where_the_first_one_starts() -> None:
    assert cache_of((2, 10), (4, 50)).end_offset_for(1, 99) == (1, 10)


def test_an_epoch_above_all_and_no_epoch_have_no_end() -> None:
    cache = cache_of((2, 10))

    assert cache.end_offset_for(3, 99) == (-1, -1)
    assert cache.end_offset_for(-1, 99) == (-1, -1)
    assert cache_of().end_offset_for(0, 99) == (-1, -1)
    assert cache_of().end_offset_for(-1, 99) == (-1, -1)


def test_cutting_the_end_forgets_epochs_that_start_there_or_later() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    cache.replace([(1, 10), (2, 50), (3, 80)])

    cache.truncate_from_end(50)

    assert cache.entries == LeaderEpochCache(files, PATH).entries == [(1, 10)]
    assert cache.latest_epoch == 1
    assert not cache.assign(1, 60)


def test_cutting_the_start_keeps_the_epoch_that_reaches_over_it() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    cache.replace([(1, 10), (2, 50), (3, 80)])

    cache.truncate_from_start(60)

    assert cache.entries == LeaderEpochCache(files, PATH).entries == [(2, 60), (3, 80)]
    cache.truncate_from_start(90)
    assert cache.entries == [(3, 90)]


def test_a_cut_that_changes_nothing_writes_nothing() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    cache.replace([(1, 10), (2, 50)])
    before = files.operation_count

    cache.truncate_from_end(51)
    cache.truncate_from_start(9)
    cache.truncate_from_start(10)
    cache.replace([(1, 10), (2, 50)])

    assert files.operation_count == before


def test_clearing_leaves_an_empty_checkpoint() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    cache.assign(1, 10)

    cache.clear()

    assert cache.latest_epoch is None
    assert read_all(files, PATH) == b"0\n0\n"
    assert cache.assign(1, 10)


def test_rebuilt_epochs_that_do_not_rise_are_a_bug() -> None:
    with pytest.raises(InvariantBroken):
        cache_of().replace([(1, 10), (1, 20)])


def test_the_cache_goes_by_the_name_it_was_given_last() -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    files.rename("/log", "/gone")

    cache.moved_to(f"/gone/{FILE_NAME}")
    cache.assign(1, 10)

    assert files.list("/gone") == [FILE_NAME]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        b"\xff\xfe",
        b"1\n1\n0 0\n",
        b"0\n2\n0 0\n",
        b"0\n1\n0\n",
        b"0\n1\n0 0 0\n",
        b"0\n1\n0 1",
        b"0\n2\n1 0\n1 5\n",
        b"0\n2\n1 5\n2 5\n",
        b"0\n1\n-1 5\n",
        b"0\n1\n1 x\n",
        b"0\n\n",
        bytes(64),
    ],
)
def test_a_file_that_cannot_be_trusted_is_an_empty_cache(content: bytes) -> None:
    assert LeaderEpochCache(disk(content), PATH).entries == []


@settings(max_examples=examples(200), deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["assign", "assign", "assign", "end", "start"]),
            st.integers(0, 6),
            st.integers(0, 40),
        ),
        max_size=20,
    )
)
def test_a_cache_agrees_with_the_rules_read_aloud(steps: list[tuple[str, int, int]]) -> None:
    files = disk()
    cache = LeaderEpochCache(files, PATH)
    model: list[tuple[int, int]] = []
    for act, epoch, offset in steps:
        match act:
            case "assign":
                cache.assign(epoch, offset)
                if not (model and model[-1][0] == epoch and offset >= model[-1][1]):
                    model = [(e, o) for e, o in model if e < epoch and o < offset]
                    model.append((epoch, offset))
            case "end":
                cache.truncate_from_end(offset)
                model = [(e, o) for e, o in model if o < offset]
            case "start":
                cache.truncate_from_start(offset)
                below = [(e, o) for e, o in model if o <= offset]
                model = [(e, offset) for e, _ in below[-1:]] + model[len(below) :]
        assert cache.entries == LeaderEpochCache(files, PATH).entries == model
        for asked in range(-1, 8):
            assert cache.end_offset_for(asked, 100) == end_by_scanning(model, asked)


def end_by_scanning(entries: list[tuple[int, int]], asked: int) -> tuple[int, int]:
    if asked < 0 or not entries or asked > entries[-1][0]:
        return (-1, -1)
    known = [epoch for epoch, _ in entries if epoch <= asked]
    following = [start for epoch, start in entries if epoch > asked]
    return (known[-1] if known else asked), (following[0] if following else 100)


def test_an_epoch_that_has_begun_is_written_with_its_first_record() -> None:
    files = disk()
    epochs = LeaderEpochCache(files, PATH)
    epochs.assign(1, 0)
    epochs.begin(2, 50)

    assert epochs.end_offset_for(1, 50) == (1, 50)
    assert LeaderEpochCache(files, PATH).entries == [(1, 0)]
    assert not epochs.assign(2, 50)
    assert LeaderEpochCache(files, PATH).entries == [(1, 0), (2, 50)]


def test_an_epoch_that_began_without_records_gives_way_to_the_next_one() -> None:
    files = disk()
    epochs = LeaderEpochCache(files, PATH)
    epochs.begin(2, 50)
    epochs.begin(3, 50)

    assert epochs.entries == [(3, 50)]
