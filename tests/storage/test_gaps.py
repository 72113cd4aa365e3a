"""Gaps between offsets: those that a leader sent survive every stop, those of a loss do not.

A follower gets gaps from a leader whose log is compacted, or was before its `cleanup.policy`
changed. Nothing but the log itself tells the next start of them: every checkpoint may be gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.simulator.disk.crash import (
    DataFate,
    NameFate,
    Replay,
    after_crash,
    data_kept,
    data_lost,
    data_torn_at,
    names_kept,
    names_kept_up_to,
    names_undone,
    page_zeroed,
)

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

GAPPED = (0, 3, 4, 9, 17, 18, 40, 1000)
"""Base offsets of batches with one record each; all but 0, 4 and 18 are behind a gap."""


def fetch(bench: LogBench, *bases: int, epoch: int = 0) -> None:
    """Let the follower append these batches in one go, as one fetch answer brings them."""
    data = b"".join(
        build_batch(
            [NewRecord(b"key", b"value of %d" % base, bench.now.wall_ms)],
            base_offset=base,
            leader_epoch=epoch,
        )
        for base in bases
    )
    bench.log.append_as_follower(memoryview(data), bench.now, fetch_epoch=epoch)


def bases_of(bench: LogBench) -> list[int]:
    return [batch.header.base_offset for batch in bench.batches()]


@pytest.fixture
def follower(new_bench: NewBench) -> LogBench:
    return new_bench(index_interval_bytes=200, segment_bytes=400)


@pytest.mark.parametrize("at_once", [1, 2, 3, len(GAPPED)])
def test_a_process_that_dies_loses_no_batch_behind_a_gap(follower: LogBench, at_once: int) -> None:
    """No checkpoint is there, and the topic is not compacted any more."""
    taken: list[int] = []
    for first in range(0, len(GAPPED), at_once):
        bases = GAPPED[first : first + at_once]
        fetch(follower, *bases)
        taken += bases
        follower.check()
        for _ in range(2):
            follower.load()
            assert bases_of(follower) == taken
            assert follower.log.end_offset == taken[-1] + 1
            assert (follower.log.cut_bytes, follower.log.damage) == (0, [])
            follower.check()


def test_the_first_batch_of_a_log_may_be_behind_a_gap(follower: LogBench) -> None:
    """The leader's log starts at an offset that compaction took away."""
    follower.log.truncate_fully_and_start_at(100, follower.now)
    fetch(follower, 107)

    follower.load(log_start=100)

    assert bases_of(follower) == [107]
    assert (follower.log.start_offset, follower.log.end_offset) == (100, 108)
    follower.check()


@pytest.mark.parametrize("kept", range(1, len(GAPPED)))
def test_a_batch_behind_a_gap_that_a_truncation_made_the_last_one_stays(
    follower: LogBench, kept: int
) -> None:
    fetch(follower, *GAPPED[:5])
    fetch(follower, *GAPPED[5:])

    follower.log.truncate_to(GAPPED[kept - 1] + 1, follower.now)
    follower.load()

    assert bases_of(follower) == list(GAPPED[:kept])
    follower.check()
    fetch(follower, GAPPED[kept - 1] + 5, epoch=1)
    follower.load()
    assert bases_of(follower) == [*GAPPED[:kept], GAPPED[kept - 1] + 5]


def test_a_batch_behind_a_gap_stays_when_what_follows_it_was_cut_off(follower: LogBench) -> None:
    fetch(follower, 0, 5, 9)
    last = follower.batches()[-1]
    follower.files.damage(follower.path(0), last.position + 70, b"\xff\xff")

    for _ in range(2):
        follower.load()
        assert bases_of(follower) == [0, 5]
        follower.check()


def test_an_index_that_is_rebuilt_goes_on_to_tell_of_a_last_batch_behind_a_gap(
    follower: LogBench,
) -> None:
    fetch(follower, 0, 5)
    follower.log.segments.active.rebuild_indexes()

    follower.load()

    assert bases_of(follower) == [0, 5]


@pytest.mark.parametrize("byte", range(8))
@pytest.mark.parametrize("bases", [(0, 1, 2), (0, 1, 20), (0, 10, 20)])
def test_offsets_of_the_last_batch_that_nobody_bears_out_end_the_log(
    follower: LogBench, bases: tuple[int, ...], byte: int
) -> None:
    """A bit of the base offset was flipped, which no checksum would tell."""
    fetch(follower, *bases)
    last = follower.batches()[-1]
    damaged = bytes([last.data[byte] ^ 0x40])
    follower.files.damage(follower.path(0), last.position + byte, damaged)

    follower.load()

    assert bases_of(follower) == list(bases[:-1])
    follower.check()


@pytest.mark.parametrize("byte", range(8))
def test_offsets_in_the_middle_that_the_batch_behind_contradicts_end_the_log(
    follower: LogBench, byte: int
) -> None:
    fetch(follower, 0, 10, 20)
    middle = follower.batches()[1]
    damaged = bytes([middle.data[byte] ^ 0x40])
    follower.files.damage(follower.path(0), middle.position + byte, damaged)

    follower.load()

    assert bases_of(follower) == [0]
    follower.check()


def test_a_segment_that_lost_its_end_is_followed_by_nothing(follower: LogBench) -> None:
    """Whole batches at the end of one file were never written; those of the next file were."""
    fetch(follower, 0, 5)
    fetch(follower, 9)
    follower.log.roll(follower.now)
    fetch(follower, 30)
    follower.log.segments[0].file.truncate(follower.batches()[2].position)

    for _ in range(2):
        follower.load()
        assert bases_of(follower) == [0, 5]
        assert follower.bases() == [0]
        follower.check()


@pytest.mark.parametrize(
    "data",
    [data_kept, data_lost, data_torn_at(1), data_torn_at(80), data_torn_at(150), page_zeroed(0)],
)
@pytest.mark.parametrize("names", [names_kept, names_undone, names_kept_up_to(3)])
def test_a_crash_anywhere_leaves_a_beginning_with_all_that_was_flushed(
    follower: LogBench, new_bench: NewBench, data: DataFate, names: NameFate
) -> None:
    moments: list[tuple[int, int]] = []
    for at, base in enumerate(GAPPED):
        fetch(follower, base)
        if at in (0, 2, 5):
            follower.log.sync()
            moments.append((len(follower.files.trace), at + 1))
    written = follower.contents()
    other = new_bench(**follower.config._asdict())
    replayed = Replay(follower.files.image)
    for count, operation in enumerate(follower.files.trace):
        if count >= moments[0][0]:
            flushed = max(batches for operations, batches in moments if operations <= count)
            other.load(files=after_crash(replayed.disk, data, names))
            found = other.contents()
            assert found == written[: len(found)]
            assert len(found) >= flushed
            other.check()
            end = other.log.end_offset
            other.load()
            assert (other.contents(), other.log.end_offset) == (found, end)
        replayed.apply(operation)


def test_a_fetched_gap_is_no_news_to_the_next_start_after_the_policy_changed(
    new_bench: NewBench,
) -> None:
    """Everything at once: fetched while compacted, switched to delete, killed, no checkpoint."""
    bench = new_bench(cleanup_compact=True, cleanup_delete=False, segment_bytes=300)
    for base in GAPPED:
        fetch(bench, base)
    bench.config = bench.config._replace(cleanup_compact=False, cleanup_delete=True)

    bench.load(recovery_point=None, cleaned_to=0)

    assert bases_of(bench) == list(GAPPED)
    assert read_header(bench.contents()[-1]).next_offset == bench.log.end_offset == 1001


def bases_after_each_kill(follower: LogBench, other: LogBench, since: int) -> list[list[int]]:
    """What a start finds if the process is killed before each operation from `since` on."""
    found = []
    replayed = Replay(follower.files.image)
    for count, operation in enumerate(follower.files.trace):
        if count >= since:
            other.load(files=after_crash(replayed.disk, data_kept, names_kept))
            found.append(bases_of(other))
        replayed.apply(operation)
    return found


def test_a_start_that_is_killed_takes_nothing_from_the_next_one(
    follower: LogBench, new_bench: NewBench
) -> None:
    for base in GAPPED:
        fetch(follower, base)
    began = len(follower.files.trace)
    follower.load()
    follower.append()
    other = new_bench(**follower.config._asdict())

    for bases in bases_after_each_kill(follower, other, began):
        assert tuple(bases[: len(GAPPED)]) == GAPPED


@pytest.mark.parametrize("kept", range(1, len(GAPPED)))
def test_a_truncation_that_is_killed_takes_no_more_than_it_was_to_take(
    follower: LogBench, new_bench: NewBench, kept: int
) -> None:
    fetch(follower, *GAPPED[:5])
    fetch(follower, *GAPPED[5:])
    began = len(follower.files.trace)
    follower.log.truncate_to(GAPPED[kept - 1] + 1, follower.now)
    other = new_bench(**follower.config._asdict())

    for bases in bases_after_each_kill(follower, other, began):
        assert tuple(bases[:kept]) == GAPPED[:kept]


def test_a_compacted_log_needs_no_index_to_keep_its_last_batch(new_bench: NewBench) -> None:
    """Apache Kafka writes no entry for it, and an index may be deleted."""
    bench = new_bench(cleanup_compact=True, cleanup_delete=False)
    fetch(bench, 0, 5, 9)
    bench.log.segments.active.offset_index.begin_anew()
    bench.log.segments.active.offset_index.settle()

    bench.load()

    assert bases_of(bench) == [0, 5, 9]
    bench.check()
