from __future__ import annotations

from functools import partial
from random import Random
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import DiskError
from tidelog.simulator.disk.crash import (
    PAGE_BYTES,
    DataFate,
    NameFate,
    Replay,
    after_crash,
    crashes,
    data_drawn,
    data_kept,
    data_lost,
    data_torn_at,
    image_after_crash,
    names_drawn,
    names_kept,
    names_kept_up_to,
    names_undone,
    page_zeroed,
)
from tidelog.simulator.disk.disk_operation import FileSynced, Operation
from tidelog.simulator.disk.memory_filesystem import MemoryFile, MemoryFileSystem
from tidelog.storage.filesystem import read_all, write_atomically


class Dice:
    """A seeded Entropy."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def uuid(self) -> UUID:
        return UUID(int=self._random.getrandbits(128))

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def synced_disk() -> MemoryFileSystem:
    """A disk with one durable file, /data/a, that holds `durable`."""
    disk = MemoryFileSystem()
    disk.make_directory("/data")
    disk.sync_directory("/")
    file = disk.open("/data/a")
    file.append(b"durable")
    file.sync()
    file.close()
    disk.sync_directory("/data")
    return after_crash(disk, data_lost, names_undone)


def content_after(
    disk: MemoryFileSystem, data: DataFate = data_kept, names: NameFate = names_kept
) -> bytes:
    return read_all(after_crash(disk, data, names), "/data/a")


def test_a_dying_process_leaves_everything_it_wrote() -> None:
    disk = synced_disk()
    disk.open("/data/a").append(b"-more")
    disk.open("/data/b").append(b"new")

    after = after_crash(disk)

    assert read_all(after, "/data/a") == b"durable-more"
    assert read_all(after, "/data/b") == b"new"
    assert after.trace == []


def test_unsynced_bytes_can_be_lost_and_synced_ones_never() -> None:
    disk = synced_disk()
    file = disk.open("/data/a")
    file.append(b"-synced")
    file.sync()
    file.append(b"-lost")

    assert content_after(disk, data_lost) == b"durable-synced"


@pytest.mark.parametrize("length", range(6))
def test_unsynced_bytes_can_be_torn_at_any_byte(length: int) -> None:
    disk = synced_disk()
    disk.open("/data/a").append(b"-more")

    assert content_after(disk, data_torn_at(length)) == b"durable-more"[: 7 + length]


def test_an_unsynced_page_can_read_as_zeros_while_the_synced_bytes_in_it_stay() -> None:
    disk = synced_disk()
    disk.open("/data/a").append(b"x" * (2 * PAGE_BYTES))
    size = 7 + 2 * PAGE_BYTES

    first = content_after(disk, page_zeroed(0))
    second = content_after(disk, page_zeroed(1))
    last = content_after(disk, page_zeroed(2))

    assert first == b"durable" + bytes(PAGE_BYTES - 7) + b"x" * (size - PAGE_BYTES)
    assert second[:PAGE_BYTES] == b"durable" + b"x" * (PAGE_BYTES - 7)
    assert second[PAGE_BYTES:] == bytes(PAGE_BYTES) + b"x" * 7
    assert last == b"durable" + b"x" * (size - 14) + bytes(7)
    assert content_after(disk, page_zeroed(3)) == b"durable" + b"x" * (size - 7)


def test_a_cut_that_was_not_synced_can_be_undone() -> None:
    disk = synced_disk()
    file = disk.open("/data/a")
    file.truncate(4)
    file.append(b"XY")
    file.truncate(3)
    file.append(b"Z")

    assert content_after(disk) == b"durZ"
    assert content_after(disk, data_lost) == b"durable"
    assert content_after(disk, data_torn_at(0)) == b"dur"
    file.sync()
    assert content_after(disk, data_lost) == b"durZ"


def test_names_that_were_not_synced_can_be_undone() -> None:
    disk = synced_disk()
    new = disk.open("/data/new")
    new.append(b"new")
    new.sync()
    disk.remove("/data/a")

    undone = after_crash(disk, names=names_undone)
    assert undone.list("/data") == ["a"]
    assert after_crash(disk).list("/data") == ["new"]
    disk.sync_directory("/data")
    assert after_crash(disk, names=names_undone).list("/data") == ["new"]


def test_a_rename_is_undone_or_kept_as_a_whole() -> None:
    disk = synced_disk()
    new = disk.open("/data/new")
    new.append(b"new")
    new.sync()
    disk.sync_directory("/data")
    disk.rename("/data/new", "/data/a")

    undone = after_crash(disk, names=names_undone)
    kept = after_crash(disk, names=names_kept)

    assert {name: read_all(undone, f"/data/{name}") for name in undone.list("/data")} == {
        "a": b"durable",
        "new": b"new",
    }
    assert {name: read_all(kept, f"/data/{name}") for name in kept.list("/data")} == {"a": b"new"}


def test_changes_of_names_reach_the_disk_in_order() -> None:
    disk = synced_disk()
    for name in "bcd":
        disk.open(f"/data/{name}")
    disk.rename("/data/a", "/data/e")

    listings = [
        after_crash(disk, names=names_kept_up_to(count)).list("/data") for count in range(5)
    ]

    assert listings == [
        ["a"],
        ["a", "b"],
        ["a", "b", "c"],
        ["a", "b", "c", "d"],
        ["b", "c", "d", "e"],
    ]


def test_a_new_directory_goes_with_all_that_is_in_it() -> None:
    disk = synced_disk()
    disk.make_directory("/data/orders-0")
    file = disk.open("/data/orders-0/a.log")
    file.append(b"abc")
    file.sync()
    disk.sync_directory("/data/orders-0")

    assert after_crash(disk, names=names_undone).list("/data") == ["a"]
    disk.sync_directory("/data")
    assert read_all(after_crash(disk, names=names_undone), "/data/orders-0/a.log") == b"abc"


def test_a_rename_between_directories_is_durable_at_once() -> None:
    disk = synced_disk()
    disk.make_directory("/other")
    disk.sync_directory("/")
    disk.rename("/data/a", "/other/a")

    after = after_crash(disk, names=names_undone)

    assert after.list("/data") == []
    assert read_all(after, "/other/a") == b"durable"


def test_a_removed_directory_can_come_back_in_part() -> None:
    disk = synced_disk()
    disk.remove_directory("/data")

    assert after_crash(disk).list("/") == []
    assert after_crash(disk, names=names_undone).list("/data") == ["a"]
    half = after_crash(disk, names=lambda directory, pending: pending * (directory != "/"))
    assert half.list("/") == ["data"]
    assert half.list("/data") == []


def test_after_a_failed_sync_a_later_one_makes_nothing_durable() -> None:
    disk = synced_disk()
    file = disk.open("/data/a")
    file.append(b"-more")
    disk.fail_when(lambda operation: isinstance(operation, FileSynced))
    with pytest.raises(DiskError):
        file.sync()
    disk.heal()
    file.sync()

    assert content_after(disk, data_lost) == b"durable"
    *_, replayed = crashes(disk, data_lost)
    assert read_all(replayed, "/data/a") == b"durable"


def test_a_crash_can_be_replayed_after_every_operation() -> None:
    disk = synced_disk()
    file = disk.open("/data/a")
    file.append(b"-1")
    disk.rename("/data/a", "/data/b")
    file.append(b"-2")
    disk.remove("/data/b")

    found = [
        {name: read_all(after, f"/data/{name}") for name in after.list("/data")}
        for after in crashes(disk)
    ]

    assert found == [
        {"a": b"durable"},
        {"a": b"durable-1"},
        {"b": b"durable-1"},
        {"b": b"durable-1-2"},
        {},
    ]


@pytest.mark.parametrize("first", [True, False])
def test_atomic_writing_leaves_the_old_or_the_new_content_after_any_crash(first: bool) -> None:
    base = MemoryFileSystem()
    base.make_directory("/data")
    base.sync_directory("/")
    if not first:
        write_atomically(base, "/data/vote", b"old content")
    disk = after_crash(base, data_lost, names_undone)
    write_atomically(disk, "/data/vote", b"the new content")
    allowed = {None if first else b"old content", b"the new content"}

    fates = [data_kept, data_lost, page_zeroed(0), *map(data_torn_at, range(16))]
    for data in fates:
        for names in (names_kept, names_undone):
            *before, last = (
                read_all(after, "/data/vote") if after.exists("/data/vote") else None
                for after in crashes(disk, data, names)
            )
            assert set(before) <= allowed
            assert last == b"the new content"


def test_atomic_writing_gets_over_what_an_earlier_crash_left() -> None:
    disk = synced_disk()
    disk.open("/data/a.tmp").append(b"left behind by a crash, and longer")

    write_atomically(disk, "/data/a", b"new")

    assert content_after(disk, data_lost, names_undone) == b"new"


def is_operation_number(disk: MemoryFileSystem, number: int, _operation: Operation) -> bool:
    return disk.operation_count == number


def test_a_failing_atomic_write_leaves_the_old_content() -> None:
    for failing in range(5):
        disk = synced_disk()
        disk.fail_when(partial(is_operation_number, disk, failing))
        with pytest.raises(DiskError):
            write_atomically(disk, "/data/a", b"new")
        assert content_after(disk, data_lost, names_undone) == b"durable"
        assert content_after(disk) == (b"new" if failing == 4 else b"durable")


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["append", "cut", "sync", "rename", "remove", "create", "sync names"]),
        st.integers(0, 2),
        st.integers(0, 9000),
    ),
    max_size=25,
)


def carry_out(disk: MemoryFileSystem, steps: list[tuple[str, int, int]]) -> None:
    opened: dict[int, MemoryFile] = {}
    for act, which, number in steps:
        path = f"/data/{which}"
        if act == "create" or which not in opened:
            opened[which] = disk.open(path)
        file = opened[which]
        match act:
            case "append":
                file.append(bytes([number % 251 + 1]) * number)
            case "cut":
                file.truncate(file.size() * number // 9000)
            case "sync":
                file.sync()
            case "rename" if disk.exists(path):
                disk.rename(path, f"/data/{number % 3}")
            case "remove" if disk.exists(path):
                disk.remove(path)
            case "sync names":
                disk.sync_directory("/data")


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_a_replayed_trace_gives_the_same_disk_and_the_same_crashes(
    steps: list[tuple[str, int, int]], seed: int
) -> None:
    disk = synced_disk()
    carry_out(disk, steps)

    replay = Replay(disk.image)
    for operation in disk.trace:
        replay.apply(operation)

    for data, names in (
        (data_kept, names_kept),
        (data_lost, names_undone),
        (data_drawn(Dice(seed)), names_drawn(Dice(seed + 1))),
    ):
        again = (data_drawn(Dice(seed)), names_drawn(Dice(seed + 1)))
        chosen = again if data not in (data_kept, data_lost) else (data, names)
        assert image_after_crash(disk, data, names) == image_after_crash(replay.disk, *chosen)


@settings(max_examples=examples(150), deadline=None)
@given(STEPS, st.integers(0, 2**32))
def test_whatever_is_drawn_a_synced_file_under_a_synced_name_survives(
    steps: list[tuple[str, int, int]], seed: int
) -> None:
    disk = synced_disk()
    carry_out(disk, steps)
    kept = disk.open("/data/kept")
    kept.append(b"promised")
    kept.sync()
    disk.sync_directory("/data")
    kept.append(b"unsynced" * 1000)

    after = after_crash(disk, data_drawn(Dice(seed)), names_drawn(Dice(seed)))

    content = read_all(after, "/data/kept")
    assert content.startswith(b"promised")
    assert set(content[8:]) <= set(b"unsynced\0")
    assert image_after_crash(after) == image_after_crash(after, data_lost, names_undone)
