"""Taking old segments away."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.storage.log_values import RemovedSegment

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

DAY_MS = 86_400_000


def fill(bench: LogBench, segments: int = 4) -> None:
    """Segments of ten records, each a day younger than the one before it."""
    for at in range(segments):
        if at:
            bench.log.roll(bench.pass_ms(DAY_MS))
        bench.append(10, epoch=at)


def removed(bench: LogBench, high_watermark: int | None = None) -> list[int]:
    high_watermark = bench.log.end_offset if high_watermark is None else high_watermark
    return [segment.base_offset for segment in bench.log.delete_expired(bench.now, high_watermark)]


def test_segments_older_than_the_retention_time_go(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=2 * DAY_MS)
    fill(bench)
    assert removed(bench) == [0]

    bench.pass_ms(10)

    assert removed(bench) == [10]
    assert bench.log.start_offset == 20
    assert bench.bases() == [20, 30]
    bench.check()


def test_segments_beyond_the_retention_size_go(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=-1)
    fill(bench)
    size = bench.log.segments.first.size
    bench.log.config = bench.log.config._replace(retention_bytes=2 * size + 1)

    assert bench.log.delete_expired(bench.now, 40) == [RemovedSegment(0, size, "retention.bytes")]
    assert removed(bench) == []
    bench.check()


def test_segments_below_the_log_start_go_whatever_the_policy(new_bench: NewBench) -> None:
    bench = new_bench(cleanup_delete=False, cleanup_compact=True, retention_ms=0)
    fill(bench)
    bench.log.raise_start_to(25)

    found = bench.log.delete_expired(bench.pass_ms(100 * DAY_MS), 40)

    assert [(segment.base_offset, segment.cause) for segment in found] == [
        (0, "log start"),
        (10, "log start"),
    ]
    assert bench.log.start_offset == 25
    assert bench.bases() == [20, 30]
    bench.check()


def test_a_log_that_starts_at_its_end_keeps_its_last_segment(new_bench: NewBench) -> None:
    bench = new_bench(cleanup_delete=False, cleanup_compact=True)
    fill(bench)
    bench.log.raise_start_to(40)

    assert removed(bench) == [0, 10, 20]
    assert bench.bases() == [30]
    assert (bench.log.start_offset, bench.log.end_offset) == (40, 40)


def test_an_empty_log_is_left_as_it_is(new_bench: NewBench) -> None:
    bench = new_bench(retention_bytes=0, retention_ms=0)
    fill(bench, 2)
    assert removed(bench) == [0, 10]

    assert removed(bench) == []
    assert bench.bases() == [20]


def test_nothing_at_or_above_the_high_watermark_goes(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=0)
    fill(bench)
    bench.pass_ms(10 * DAY_MS)

    assert removed(bench, 19) == [0]
    assert removed(bench, 20) == [10]
    assert bench.log.start_offset == 20


def test_retention_stops_at_the_first_segment_that_stays(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=DAY_MS)
    bench.append(timestamp=bench.now.wall_ms + 50 * DAY_MS)
    bench.log.roll(bench.now)
    bench.append()
    bench.log.roll(bench.now)
    bench.pass_ms(5 * DAY_MS)

    assert removed(bench) == []


def test_when_all_is_old_an_empty_segment_takes_over(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=DAY_MS)
    fill(bench, 2)
    bench.pass_ms(5 * DAY_MS)

    assert removed(bench) == [0, 10]
    assert bench.bases() == [20]
    assert (bench.log.start_offset, bench.log.end_offset) == (20, 20)
    assert removed(bench) == []
    bench.append(epoch=9)
    bench.check()


def test_segments_without_timestamps_are_as_old_as_their_files(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=DAY_MS)
    bench.pass_ms(0)
    bench.append(timestamp=-1)
    bench.log.roll(bench.now)
    bench.append(timestamp=-1)
    assert removed(bench) == []
    bench.pass_ms(DAY_MS + 1)
    assert removed(bench) == [0, 1]


def test_negative_limits_keep_everything(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=-1, retention_bytes=-1)
    fill(bench)
    bench.pass_ms(1000 * DAY_MS)

    assert removed(bench) == []


def test_an_empty_policy_keeps_everything(new_bench: NewBench) -> None:
    bench = new_bench(cleanup_delete=False, retention_ms=0, retention_bytes=0)
    fill(bench)
    bench.pass_ms(1000 * DAY_MS)

    assert removed(bench) == []


def test_files_are_set_aside_oldest_first_and_removed_after_the_delay(
    new_bench: NewBench,
) -> None:
    bench = new_bench(retention_ms=DAY_MS, file_delete_delay_ms=500)
    fill(bench, 3)
    found = bench.log.read(0, 1 << 20, 30)
    assert found is not None
    content = found.read()
    before = len(bench.files.trace)

    assert removed(bench) == [0]

    paths = [operation.path for operation in bench.files.trace[before:]]
    logs = [path for path in paths if path.endswith(".log")]
    assert logs == [bench.path(0)]
    assert bench.names(".deleted") == [
        "00000000000000000000.index.deleted",
        "00000000000000000000.log.deleted",
        "00000000000000000000.timeindex.deleted",
    ]
    assert found.read() == content
    bench.log.sweep(bench.pass_ms(499))
    assert bench.names(".deleted") != []
    bench.log.sweep(bench.pass_ms(1))
    assert bench.names(".deleted") == []


def test_epochs_and_snapshots_follow_the_log_start(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=DAY_MS)
    fill(bench)
    assert removed(bench) == [0, 10]

    assert [tuple(entry) for entry in bench.log.epochs.entries] == [(2, 20), (3, 30)]
    assert bench.names(".snapshot") == [
        "00000000000000000020.snapshot",
        "00000000000000000030.snapshot",
    ]


def test_the_log_start_is_raised_once_and_never_lowered(bench: LogBench) -> None:
    bench.append(10, epoch=1)
    bench.append(10, epoch=2)

    assert bench.log.raise_start_to(12)
    assert not bench.log.raise_start_to(12)
    assert not bench.log.raise_start_to(3)
    assert bench.log.start_offset == 12
    assert [tuple(entry) for entry in bench.log.epochs.entries] == [(2, 12)]
    bench.check()


@pytest.mark.parametrize("clean", [True, False])
def test_what_retention_took_away_does_not_come_back(new_bench: NewBench, clean: bool) -> None:
    bench = new_bench(retention_ms=DAY_MS)
    fill(bench)
    assert removed(bench) == [0, 10]
    if clean:
        bench.log.close()

    bench.load(clean=clean)

    assert (bench.log.start_offset, bench.log.end_offset) == (20, 40)
    assert bench.names(".deleted") == []
    bench.check()


def test_a_damaged_time_index_deletes_nothing_early(new_bench: NewBench) -> None:
    bench = new_bench(retention_ms=3 * DAY_MS)
    fill(bench)
    bench.reopen()
    for base in (0, 10):
        bench.files.damage(bench.path(base, ".timeindex"), 0, bytes(8))

    assert removed(bench) == []
