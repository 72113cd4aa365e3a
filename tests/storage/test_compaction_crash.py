"""Power goes at every single operation of a cleaning pass: the table must come back whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.records.validation import AcceptedBatch
from tidelog.storage.cleanable import CleanerMemory, dirty_range, plan_compaction
from tidelog.storage.compaction import Compaction
from tidelog.storage.crash import (
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
)
from tidelog.storage.log_values import Appended
from tidelog.storage.segment_swap import swap

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

KEYS = (b"a", b"b", b"c")
MEMORY = CleanerMemory(1 << 20, 0.9)


def put(bench: LogBench, key: bytes, value: bytes | None) -> None:
    data = build_batch([NewRecord(key, value, bench.now.wall_ms)])
    batch = AcceptedBatch(read_header(data), memoryview(data))
    assert isinstance(bench.log.append_as_leader(batch, 0, bench.now), Appended)


def roll(bench: LogBench) -> None:
    bench.log.roll(bench.now)
    bench.log.sync()


def clean(bench: LogBench) -> None:
    log = bench.log
    dirty = dirty_range(log, log.end_offset, bench.now)
    assert dirty is not None
    compaction = Compaction(plan_compaction(log, dirty, MEMORY, bench.now))
    while not compaction.is_done:
        compaction.run_slice()
        if compaction.finished is not None:
            swap(log, compaction.finished, bench.now)
            compaction.finished = None
    log.first_dirty_offset = compaction.cleaned_to


def table(bench: LogBench) -> dict[bytes | None, bytes]:
    seen: dict[bytes | None, bytes | None] = {}
    for batch in bench.batches():
        for record in records_of(batch.data):
            seen[record.key] = record.value
    return {key: value for key, value in seen.items() if value is not None}


@pytest.fixture
def filled(new_bench: NewBench) -> LogBench:
    """A log in need of a second pass, which will drop a tombstone."""
    bench = new_bench(
        cleanup_compact=True,
        cleanup_delete=False,
        delete_retention_ms=10,
        segment_bytes=350,
        index_interval_bytes=80,
    )
    for at in range(9):
        put(bench, KEYS[at % 3], b"%d" % at)
    put(bench, b"a", None)
    roll(bench)
    clean(bench)
    bench.pass_ms(20)
    for at in range(6):
        put(bench, KEYS[1 + at % 2], b"%d" % (10 + at))
    roll(bench)
    put(bench, b"d", b"last")
    bench.log.sync()
    return bench


@pytest.mark.parametrize("data", [data_kept, data_lost, data_torn_at(30)])
@pytest.mark.parametrize(
    "names", [names_kept, names_undone, *(names_kept_up_to(count) for count in (1, 3, 5, 7, 9))]
)
def test_a_crash_anywhere_in_a_pass_loses_nothing_and_brings_nothing_back(
    filled: LogBench, new_bench: NewBench, data: DataFate, names: NameFate
) -> None:
    before = table(filled)
    beginning = len(filled.files.trace)
    end, durable = filled.log.end_offset, filled.log.recovery_point
    clean(filled)
    assert table(filled) == before
    other = new_bench(**filled.config._asdict())
    other.now = filled.now
    replayed = Replay(filled.files.image)
    for count, operation in enumerate(filled.files.trace):
        if count >= beginning:
            other.load(files=after_crash(replayed.disk, data, names), recovery_point=durable)
            assert table(other) == before, f"after {count - beginning} operations"
            assert other.log.end_offset == end
            assert other.names(".swap") == other.names(".cleaned") == []
            clean_again(other)
            assert table(other) == before
        replayed.apply(operation)


def clean_again(bench: LogBench) -> None:
    """The next start does not know of the pass that was cut short and begins it anew."""
    if dirty_range(bench.log, bench.log.end_offset, bench.now) is not None:
        clean(bench)


@pytest.fixture
def holed(new_bench: NewBench) -> LogBench:
    """A log whose first two segments are far apart: the cleaner took all between them."""
    bench = new_bench(cleanup_compact=True, cleanup_delete=False, segment_bytes=200)
    put(bench, b"rare", b"0")
    for at in range(12):
        put(bench, b"often", b"%d" % at)
    roll(bench)
    clean(bench)
    put(bench, b"d", b"last")
    bench.log.sync()
    assert bench.batches()[0].header.next_offset < bench.bases()[1]
    return bench


@pytest.mark.parametrize("is_known", ["durable", "cleaned"])
def test_segments_that_the_cleaner_emptied_are_no_end_of_the_log(
    holed: LogBench, is_known: str
) -> None:
    """Either checkpoint tells that a hole below it is the cleaner's work."""
    before, end, cleaned_to = table(holed), holed.log.end_offset, holed.log.first_dirty_offset
    if is_known == "durable":
        holed.load(recovery_point=end)
    else:
        holed.load(cleaned_to=cleaned_to)
    assert table(holed) == before
    assert holed.log.end_offset == end
    assert holed.log.damage == []


def test_a_hole_above_all_that_was_cleaned_is_the_end_of_what_is_left(holed: LogBench) -> None:
    holed.load(recovery_point=0, cleaned_to=0)
    assert holed.log.end_offset == holed.batches()[-1].header.next_offset == 1
