"""Power goes at every single operation of a cleaning pass: the table must come back whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.records.batch import read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.records.validation import AcceptedBatch
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
)
from tidelog.storage.compaction import CleanerMemory, Compaction, dirty_range, plan_compaction
from tidelog.storage.log_values import Appended
from tidelog.storage.segment import Segment

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
            log.swap_in(*compaction.finished, bench.now)
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
@pytest.mark.parametrize("is_noted", [True, False], ids=["noted", "no checkpoint"])
def test_a_crash_anywhere_in_a_pass_loses_nothing_and_brings_nothing_back(
    filled: LogBench, new_bench: NewBench, data: DataFate, names: NameFate, is_noted: bool
) -> None:
    before = table(filled)
    beginning = len(filled.files.trace)
    end, durable = filled.log.end_offset, filled.log.recovery_point if is_noted else None
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
def cleaned(new_bench: NewBench) -> LogBench:
    """A log of several segments, most of whose records the cleaner took."""
    bench = new_bench(cleanup_compact=True, cleanup_delete=False, segment_bytes=200)
    put(bench, b"rare", b"0")
    for at in range(12):
        put(bench, b"often", b"%d" % at)
    roll(bench)
    clean(bench)
    put(bench, b"d", b"last")
    bench.log.sync()
    return bench


def test_a_cleaned_segment_ends_where_the_next_one_begins(cleaned: LogBench) -> None:
    ends = {batch.header.next_offset: batch.header.record_count for batch in cleaned.batches()}
    counts = [ends[base] for base in cleaned.bases()[1:]]
    assert 0 in counts
    cleaned.check()


@pytest.mark.parametrize("policy", ["compact", "delete"])
def test_what_the_cleaner_took_is_no_loss_though_every_checkpoint_is_gone(
    cleaned: LogBench, policy: str
) -> None:
    """Nor does the topic have to be a compacted one still."""
    before, end = table(cleaned), cleaned.log.end_offset
    is_compacted = policy == "compact"
    cleaned.config = cleaned.config._replace(
        cleanup_compact=is_compacted, cleanup_delete=not is_compacted
    )

    cleaned.load(recovery_point=None, cleaned_to=0)

    assert table(cleaned) == before
    assert cleaned.log.end_offset == end
    assert (cleaned.log.damage, cleaned.log.cut_bytes) == ([], 0)
    cleaned.check()


@pytest.fixture
def holed(cleaned: LogBench) -> LogBench:
    """A log as Apache Kafka's cleaner leaves it: of a segment without records nothing stays."""
    empty = next(segment for segment in cleaned.log.segments if not holds_records(segment))
    for name in cleaned.names():
        if name.startswith(f"{empty.base_offset:020d}"):
            cleaned.files.remove(f"{cleaned.log.directory}/{name}")
    return cleaned


def holds_records(segment: Segment) -> bool:
    return any(header.record_count for _, header in segment.headers_from(segment.base_offset))


@pytest.mark.parametrize("is_known", ["durable", "cleaned"])
def test_segments_that_the_cleaner_emptied_are_no_end_of_the_log(
    holed: LogBench, is_known: str
) -> None:
    """Either checkpoint tells that a hole below it is the cleaner's work."""
    end, cleaned_to = holed.log.end_offset, holed.log.first_dirty_offset
    if is_known == "durable":
        holed.load(recovery_point=end)
    else:
        holed.load(cleaned_to=cleaned_to)
    assert table(holed) == {b"rare": b"0", b"often": b"11", b"d": b"last"}
    assert holed.log.end_offset == end
    assert holed.log.damage == []


def test_a_clean_stop_vouches_for_the_holes_though_every_checkpoint_is_gone(
    holed: LogBench,
) -> None:
    end = holed.log.end_offset
    holed.load(clean=True, recovery_point=None, cleaned_to=0)
    assert table(holed) == {b"rare": b"0", b"often": b"11", b"d": b"last"}
    assert (holed.log.end_offset, holed.log.recovery_point) == (end, end)


def test_a_hole_between_segments_that_no_checkpoint_tells_of_is_the_end_of_the_log(
    holed: LogBench,
) -> None:
    """It may be a loss: a follower's segment that is full of fetched gaps and lost its end in a
    power cut looks the same, and so does one that was never cleaned."""
    holed.load(recovery_point=0, cleaned_to=0)
    assert table(holed) == {b"rare": b"0"}
    assert holed.log.end_offset == holed.batches()[-1].header.next_offset
