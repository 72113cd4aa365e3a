"""What a stop in the middle of something leaves in a partition's directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.simulator.disk.crash import NameFate, Replay, after_crash
from tidelog.storage.recovery import base_offset_of, clear_leftovers

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


@pytest.fixture
def filled(new_bench: NewBench) -> LogBench:
    """Ten batches of two records in segments from 0, 8 and 14."""
    bench = new_bench(index_interval_bytes=150, cleanup_compact=True)
    for at in range(10):
        if at in (4, 7):
            bench.log.roll(bench.now)
        bench.append(2)
    bench.log.close()
    return bench


def copy(bench: LogBench, base: int, suffix: str, *, batches: slice = slice(None)) -> None:
    """Write some batches of a segment again, as compaction does, under another ending."""
    chosen = [batch for batch in bench.batches() if base <= batch.header.base_offset][batches]
    file = bench.files.open(bench.path(base, ".log" + suffix))
    file.append(b"".join(batch.data for batch in chosen))
    bench.files.open(bench.path(base, ".index" + suffix)).close()
    bench.files.open(bench.path(base, ".timeindex" + suffix)).close()


def first_names(count: int) -> NameFate:
    return lambda _directory, pending: min(count, pending)


def test_files_that_were_to_be_removed_are_removed(filled: LogBench) -> None:
    copy(filled, 0, ".deleted")
    filled.files.open(f"{filled.log.directory}/leader-epoch-checkpoint.deleted").close()

    filled.load()

    assert filled.names(".deleted") == []
    assert filled.log.end_offset == 20


def test_unfinished_output_of_a_compaction_is_removed(filled: LogBench) -> None:
    before = filled.contents()
    copy(filled, 0, ".cleaned", batches=slice(0, 2))

    filled.load()

    assert filled.names(".cleaned") == []
    assert filled.contents() == before


def test_finished_output_replaces_the_segments_it_was_made_from(filled: LogBench) -> None:
    whole = filled.contents()
    copy(filled, 0, ".swap", batches=slice(1, 7, 2))

    filled.load(recovery_point=14)

    assert filled.names(".swap") == []
    assert filled.bases() == [0, 14]
    assert filled.contents() == [*whole[1:7:2], *whole[7:]]


def test_output_of_a_split_that_was_not_finished_is_undone(filled: LogBench) -> None:
    before = filled.contents()
    copy(filled, 0, ".swap", batches=slice(0, 2))
    copy(filled, 0, ".cleaned", batches=slice(0, 2))

    filled.load()

    assert filled.names(".swap") == []
    assert filled.contents() == before


def test_older_output_is_finished_although_newer_was_not(filled: LogBench) -> None:
    whole = filled.contents()
    copy(filled, 0, ".swap", batches=slice(0, 4, 3))
    copy(filled, 8, ".cleaned", batches=slice(0, 1))

    filled.load(recovery_point=14)

    assert filled.contents() == [whole[0], whole[3], *whole[4:]]
    assert filled.names(".cleaned") == []


def test_a_crash_while_clearing_up_changes_nothing_in_the_end(filled: LogBench) -> None:
    copy(filled, 0, ".swap", batches=slice(1, 7, 2))
    copy(filled, 8, ".deleted")
    image = after_crash(filled.files).image
    filled.load(recovery_point=14)
    expected = filled.contents()
    fresh = after_crash(Replay(image).disk)
    clear_leftovers(fresh, filled.log.directory)
    trace = list(fresh.trace)
    replay = Replay(image)

    for operation in trace:
        replay.apply(operation)
        for survivors in range(3):
            disk = after_crash(replay.disk, names=first_names(survivors))
            filled.load(files=disk, recovery_point=14)
            assert filled.contents() == expected


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("00000000000000000012.log", 12),
        ("12.log", None),
        ("0000000000000000001x.log", None),
        ("00000000000000000012.index", None),
        ("00000000000000000012.log.swap", None),
    ],
)
def test_only_twenty_digits_name_an_offset(name: str, base: int | None) -> None:
    assert base_offset_of(name, ".log") == base
