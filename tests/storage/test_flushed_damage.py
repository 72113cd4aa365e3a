"""Damage in what was flushed once: reported, stepped over, never handed out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import HEADER_SIZE, CorruptBatch, read_header
from tidelog.storage.segment import Segment

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


def damage_batch(bench: LogBench, number: int, byte: int) -> Segment:
    batch = bench.batches()[number]
    [segment] = [
        segment
        for slot, segment in enumerate(bench.log.segments)
        if segment.base_offset
        <= batch.header.base_offset
        < bench.log.segments.end_of(slot, bench.log.end_offset)
    ]
    bench.files.damage(segment.path, batch.position + byte, bytes([batch.data[byte] ^ 0x40]))
    return segment


@pytest.mark.parametrize("byte", [*range(HEADER_SIZE), HEADER_SIZE + 3])
def test_damage_in_the_flushed_part_is_reported_and_nothing_behind_it_is_dropped(
    filled: LogBench, byte: int
) -> None:
    whole = filled.batches()
    filled.log.sync()
    bad = whole[8]
    segment = damage_batch(filled, 8, byte)

    filled.load(recovery_point=23)

    [damage] = filled.log.damage
    assert (damage.first_offset, damage.next_offset, damage.in_place) == (16, 18, True)
    assert damage.base_offset == segment.base_offset
    assert (damage.position, damage.end_position) == (
        bad.position,
        bad.position + bad.header.size,
    )
    assert filled.log.end_offset == 23
    assert filled.log.cut_bytes == 0


def test_damaged_records_are_never_handed_out_and_those_around_them_are(filled: LogBench) -> None:
    whole = filled.contents()
    filled.log.sync()
    damage_batch(filled, 8, 30)
    filled.load(recovery_point=23)

    with pytest.raises(CorruptBatch):
        filled.log.read(16, 1 << 20, 23)
    with pytest.raises(CorruptBatch):
        filled.log.read(17, 1 << 20, 23)
    before = filled.log.read(14, 1 << 20, 23)
    behind = filled.log.read(18, 1 << 20, 23)
    assert before is not None
    assert behind is not None
    assert before.read() == whole[7]
    assert behind.read() == b"".join(whole[9:])
    filled.append(epoch=3)
    tail = filled.log.read(23, 1, 24)
    assert tail is not None
    assert read_header(tail.read()).base_offset == 23


def test_damage_up_to_the_end_of_a_rolled_segment_leaves_the_next_one(filled: LogBench) -> None:
    filled.log.sync()
    damage_batch(filled, 6, 9)

    filled.load(recovery_point=13)

    [damage] = filled.log.damage
    assert (damage.first_offset, damage.next_offset) == (12, 14)
    assert filled.log.end_offset == 23


def test_a_flushed_end_that_is_lost_is_cut_and_reported(filled: LogBench) -> None:
    whole = filled.contents()
    filled.log.sync()
    damage_batch(filled, len(whole) - 1, 25)

    filled.load(recovery_point=23)

    [damage] = filled.log.damage
    assert (damage.first_offset, damage.next_offset, damage.in_place) == (22, 23, False)
    assert filled.contents() == whole[:-1]
    filled.append(epoch=5)
    found = filled.log.read(22, 1, 23)
    assert found is not None
    filled.check()


def test_a_damaged_log_can_still_be_searched_and_cut(filled: LogBench) -> None:
    filled.log.sync()
    damage_batch(filled, 8, 9)
    filled.load(recovery_point=23)

    found = filled.log.offset_for_timestamp(filled.now.wall_ms + 10, 23)
    assert found is not None
    assert found.offset == 19
    latest = filled.log.max_timestamp_offset(23)
    assert latest is not None
    assert latest.offset == 19
    assert filled.log.truncate_to(20, filled.now)
    assert len(filled.log.damage) == 1
    assert filled.log.read(18, 1, 20) is not None
    assert filled.log.truncate_to(16, filled.now)
    assert filled.log.damage == []
    filled.check()
    filled.append(epoch=5)
    filled.check()


def test_damage_bounds_no_read_of_another_segment_nor_one_that_ends_before_it(
    new_bench: NewBench,
) -> None:
    bench = new_bench()
    for at in range(8):
        if at == 4:
            bench.log.roll(bench.now)
        bench.append()
    bench.log.sync()
    size = bench.batches()[0].header.size
    segment = damage_batch(bench, 6, HEADER_SIZE)
    bench.load(recovery_point=8)
    assert [damage.base_offset for damage in bench.log.damage] == [segment.base_offset] == [4]

    lengths = [
        found and found.length
        for found in (
            bench.log.read(0, 1 << 20, 8),
            bench.log.read(4, 1 << 20, 8),
            bench.log.read(4, 1 << 20, 5),
        )
    ]

    assert lengths == [4 * size, 2 * size, size]


def test_a_cut_in_a_later_segment_leaves_what_lies_before_it(new_bench: NewBench) -> None:
    bench = new_bench()
    for at in range(8):
        if at == 4:
            bench.log.roll(bench.now)
        bench.append()
    bench.log.sync()
    size = bench.batches()[0].header.size
    damage_batch(bench, 1, HEADER_SIZE)
    bench.load(recovery_point=2)
    assert [damage.first_offset for damage in bench.log.damage] == [1]

    bench.log.truncate_to(7, bench.now)

    assert bench.log.segments.active.size == 3 * size
    assert [damage.first_offset for damage in bench.log.damage] == [1]


@pytest.mark.parametrize(("cut", "lost"), [(7, [(2, 6)]), (4, [(2, 4)]), (2, []), (1, [])])
def test_a_cut_takes_away_the_damage_above_it(
    bench: LogBench, cut: int, lost: list[tuple[int, int]]
) -> None:
    for _ in range(3):
        bench.append(2)
    bench.log.roll(bench.now)
    bench.append()
    bench.append()
    bench.log.sync()
    whole = bench.batches()[1].position
    bench.files.open(bench.path(0)).truncate(whole)
    bench.files.remove(bench.path(6, ".snapshot"))
    bench.load(recovery_point=4)
    assert [(each.first_offset, each.next_offset) for each in bench.log.damage] == [(2, 6)]

    bench.log.truncate_to(cut, bench.now)

    assert [(each.first_offset, each.next_offset) for each in bench.log.damage] == lost
