"""Reading a log back after an unclean stop: which batches and segments are believed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import write_header
from tidelog.records.builder import NewRecord, build_batch

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


def move(bench: LogBench, number: int, base_offset: int) -> None:
    """Give a batch in the first segment another base offset, which no checksum covers."""
    position = bench.batches()[number].position
    bench.files.damage(bench.path(0), position, base_offset.to_bytes(8, "big"))


def fetch(bench: LogBench, *bases: int) -> None:
    for base in bases:
        data = build_batch([NewRecord(b"key", b"value", 0)], base_offset=base, leader_epoch=0)
        bench.log.append_as_follower(memoryview(data), bench.now, fetch_epoch=0)


def remove(bench: LogBench, base_offset: int, suffix: str) -> None:
    bench.files.remove(bench.path(base_offset, suffix))


def test_a_batch_that_steps_back_ends_the_log_even_if_others_follow(bench: LogBench) -> None:
    for _ in range(3):
        bench.append()
    move(bench, 1, 0)

    bench.load()

    assert bench.log.end_offset == 1
    assert len(bench.batches()) == 1
    bench.check()


def test_a_batch_that_lies_too_far_for_an_index_ends_even_a_compacted_log(
    new_bench: NewBench,
) -> None:
    bench = new_bench(cleanup_compact=True, index_interval_bytes=0)
    for _ in range(2):
        bench.append()
    move(bench, 1, 2**40)

    bench.load()

    assert bench.log.end_offset == 1
    bench.check()


def test_a_batch_without_a_length_in_offsets_ends_the_log(bench: LogBench) -> None:
    bench.append()
    whole = bench.log.segments.active.size
    data = build_batch([NewRecord(b"key", b"value", 0)], base_offset=1, leader_epoch=0)
    header = bench.batches()[0].header._replace(base_offset=1, last_offset_delta=-1)
    write_header(data, header)
    bench.files.open(bench.path(0)).append(bytes(data))

    bench.load()

    assert bench.log.end_offset == 1
    assert bench.log.segments.active.size == whole


@pytest.mark.parametrize("flushed", [True, False])
def test_a_last_batch_behind_a_gap_is_believed_without_an_index(
    bench: LogBench, flushed: bool
) -> None:
    """It lies below the recovery point, or ends where the next segment begins."""
    fetch(bench, 0, 7)
    if not flushed:
        bench.log.roll(bench.now)
        fetch(bench, 8)
    remove(bench, 0, ".index")

    bench.load(recovery_point=8 if flushed else None)

    assert bench.log.end_offset == (8 if flushed else 9)
    segment = bench.log.segments.first
    position = bench.batches()[1].position
    assert segment.offset_index.last() == (7, position), "from now on the index bears it out"


def test_a_last_batch_behind_a_gap_is_not_believed_without_a_witness(bench: LogBench) -> None:
    fetch(bench, 0, 7)
    remove(bench, 0, ".index")

    bench.load()

    assert bench.log.end_offset == 1


@pytest.mark.parametrize(
    ("recovery_point", "cleaned_to", "bases", "lost"),
    [
        (None, 0, [0], []),
        (2, 0, [0], []),
        (4, 0, [0, 6], [(2, 6)]),
        (None, 6, [0, 6], []),
        (None, 3, [0, 6], []),
    ],
)
def test_a_segment_behind_a_hole_is_kept_if_the_hole_was_flushed_or_cleaned(
    bench: LogBench,
    recovery_point: int | None,
    cleaned_to: int,
    bases: list[int],
    lost: list[tuple[int, int]],
) -> None:
    for _ in range(3):
        bench.append(2)
    second = bench.batches()[1].position
    bench.log.roll(bench.now)
    bench.append()
    bench.log.sync()
    bench.files.open(bench.path(0)).truncate(second)
    remove(bench, 6, ".snapshot")

    bench.load(recovery_point=recovery_point, cleaned_to=cleaned_to)

    assert bench.bases() == bases
    assert [(each.first_offset, each.next_offset) for each in bench.log.damage] == lost
