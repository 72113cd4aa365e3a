"""A cleaning pass over a log: what stays, what goes and when."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.records.batch import CorruptBatch, read_header
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.compression import Codec
from tidelog.records.record import Record, records_of
from tidelog.records.validation import AcceptedBatch
from tidelog.storage.cleanable import CleanerMemory, dirty_range, is_worth_cleaning, plan_compaction
from tidelog.storage.compaction import Compaction
from tidelog.storage.log_values import Appended
from tidelog.storage.segment_swap import can_swap, swap

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench

DAY_MS = 86_400_000
MEMORY = CleanerMemory(1 << 20, 0.9)


class Pass(NamedTuple):
    """What came of a cleaning pass."""

    compaction: Compaction
    slices: int


class CompactedLog:
    """A compacted log and the cleaner's hands."""

    def __init__(self, bench: LogBench) -> None:
        self.bench = bench

    def put(self, *entries: tuple[bytes | None, bytes | None], **more: Any) -> Appended:
        """Append one batch of keys and values."""
        at = self.bench.now.wall_ms
        data = build_batch(
            [NewRecord(key, value, at + i) for i, (key, value) in enumerate(entries)], **more
        )
        batch = AcceptedBatch(read_header(data), memoryview(data))
        appended = self.bench.log.append_as_leader(batch, 0, self.bench.now)
        assert isinstance(appended, Appended), appended
        return appended

    def roll(self) -> None:
        self.bench.log.roll(self.bench.now)
        self.bench.log.sync()

    def clean(self, *, memory: CleanerMemory = MEMORY, stable: int | None = None) -> Pass | None:
        """Clean what can be cleaned, as the node does it."""
        log, now = self.bench.log, self.bench.now
        dirty = dirty_range(log, log.end_offset if stable is None else stable, now)
        if dirty is None:
            return None
        compaction = Compaction(plan_compaction(log, dirty, memory, now))
        slices = 0
        while not compaction.is_done:
            compaction.run_slice()
            slices += 1
            if compaction.finished is not None:
                assert can_swap(log, compaction.finished, compaction.plan.generation)
                swap(log, compaction.finished, now)
                compaction.finished = None
        log.first_dirty_offset = compaction.cleaned_to
        return Pass(compaction, slices)

    def records(self) -> list[Record]:
        return [record for batch in self.bench.batches() for record in records_of(batch.data)]

    def contents(self) -> list[tuple[int, bytes | None, bytes | None]]:
        return [(record.offset, record.key, record.value) for record in self.records()]


@pytest.fixture
def log(new_bench: NewBench) -> CompactedLog:
    return CompactedLog(new_bench(cleanup_compact=True, cleanup_delete=False))


@pytest.fixture
def new_log(new_bench: NewBench) -> Callable[..., CompactedLog]:
    return lambda **more: CompactedLog(
        new_bench(**{"cleanup_compact": True, "cleanup_delete": False, **more})
    )


def test_the_newest_record_of_each_key_stays_where_it_is(log: CompactedLog) -> None:
    log.put((b"a", b"1"), (b"b", b"2"))
    log.put((b"a", b"3"))
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"b", b"2"), (2, b"a", b"3")]
    log.bench.check()


def test_timestamps_and_the_place_of_a_batch_stay(log: CompactedLog) -> None:
    log.put((b"a", b"1"), (b"b", b"2"), (b"a", b"3"))
    log.roll()
    before = log.records()[1:]

    log.clean()

    (batch,) = log.bench.batches()
    assert log.records() == before
    assert (batch.header.base_offset, batch.header.last_offset_delta) == (0, 2)
    assert batch.header.record_count == 2


def test_the_active_segment_is_never_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))

    assert log.clean() is None

    log.roll()
    log.put((b"a", b"3"))
    log.clean()
    assert log.contents() == [(1, b"a", b"2"), (2, b"a", b"3")]


def test_nothing_at_or_above_the_last_stable_offset_is_read(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.roll()
    log.put((b"a", b"2"))
    log.roll()

    log.clean(stable=1)

    assert log.contents() == [(0, b"a", b"1"), (1, b"a", b"2")]
    assert log.bench.log.first_dirty_offset == 1


def test_what_is_not_durable_is_not_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.bench.log.roll(log.bench.now)

    assert log.clean() is None


def test_records_without_a_key_are_dropped(log: CompactedLog) -> None:
    log.put((None, b"1"), (b"a", b"2"))
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"a", b"2")]


def test_the_last_batch_of_the_cleaned_part_keeps_its_place_without_records(
    log: CompactedLog,
) -> None:
    log.put((b"a", b"1"))
    log.put((None, b"x"), (None, b"y"))
    log.roll()

    log.clean()

    last = log.bench.batches()[-1].header
    assert (last.base_offset, last.next_offset, last.record_count) == (1, 3, 0)
    log.bench.check()


def test_a_tombstone_outlives_its_key_by_delete_retention(new_log: Any) -> None:
    log = new_log(delete_retention_ms=1000)
    log.put((b"a", b"1"))
    log.put((b"a", None), (b"b", b"2"))
    log.roll()

    log.clean()
    assert log.contents() == [(1, b"a", None), (2, b"b", b"2")]
    (marked,) = log.bench.batches()
    assert marked.header.has_delete_horizon
    assert marked.header.base_timestamp == log.bench.now.wall_ms + 1000
    times = [record.timestamp for record in log.records()]
    assert times == [log.bench.now.wall_ms, log.bench.now.wall_ms + 1]

    log.bench.pass_ms(999)
    log.put((b"c", b"3"))
    log.roll()
    log.clean()
    assert (1, b"a", None) in log.contents()

    log.bench.pass_ms(1)
    log.put((b"d", b"4"))
    log.roll()
    log.clean()
    assert log.contents() == [(2, b"b", b"2"), (3, b"c", b"3"), (4, b"d", b"4")]
    log.bench.check_reads()


def test_records_younger_than_the_smallest_lag_stay_untouched(new_log: Any) -> None:
    log = new_log(min_compaction_lag_ms=1000)
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))
    log.roll()
    log.bench.pass_ms(999)

    assert log.clean() is None

    log.bench.pass_ms(1)
    log.clean()
    assert log.contents() == [(1, b"a", b"2")]


def test_a_log_is_worth_cleaning_by_its_dirty_share_or_by_the_age_of_its_first_dirty_record(
    new_log: Any,
) -> None:
    log = new_log(min_cleanable_dirty_ratio=0.5, max_compaction_lag_ms=60_000)
    log.put((b"a", b"1" * 100))
    log.roll()
    log.clean()
    log.put((b"b", b"2" * 50))
    log.roll()

    def worth() -> bool:
        dirty = dirty_range(log.bench.log, log.bench.log.end_offset, log.bench.now)
        assert dirty is not None
        return is_worth_cleaning(log.bench.log, dirty)

    assert not worth()
    log.bench.pass_ms(60_001)
    assert worth()


def test_small_neighbours_become_one_segment(new_log: Any) -> None:
    log = new_log(index_interval_bytes=100)
    for at in range(12):
        log.put((b"k%d" % (at % 8), b"v" * 40))
        log.roll()

    log.clean()

    assert log.bench.bases() == [0, 12]
    assert [offset for offset, _, _ in log.contents()] == list(range(4, 12))
    assert log.bench.names(".cleaned") == log.bench.names(".swap") == []
    log.bench.check_reads()


def test_a_full_map_of_keys_ends_the_pass_early_and_the_next_one_goes_on(
    new_log: Any,
) -> None:
    log = new_log()
    for at in range(20):
        log.put((b"key %d" % (at % 10), b"%d" % at))
    log.roll()
    tiny = CleanerMemory(200 * 4, 1.0)

    cleaned: list[int] = []
    while log.bench.log.first_dirty_offset < 20:
        log.clean(memory=tiny)
        cleaned.append(log.bench.log.first_dirty_offset)

    assert cleaned == [4, 8, 12, 16, 20]
    assert [offset for offset, _, _ in log.contents()] == list(range(10, 20))


def test_aborted_records_go_and_their_marker_goes_after_them(new_log: Any) -> None:
    log = new_log(delete_retention_ms=1000)
    log.put((b"a", b"1"))
    log.put((b"a", b"x"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.bench.end_transaction(7, committed=False)
    log.put((b"b", b"1"), producer_id=7, producer_epoch=0, base_sequence=1, transactional=True)
    log.bench.end_transaction(7, committed=True)
    log.roll()

    log.clean()
    aborted = log.bench.log.aborted_transactions(0, 5)
    assert [(entry.first_offset, entry.last_offset) for entry in aborted] == [(1, 2)]
    assert [entry for entry in log.contents() if entry[1] in (b"a", b"b")] == [
        (0, b"a", b"1"),
        (3, b"b", b"1"),
    ]
    markers = [batch.header for batch in log.bench.batches() if batch.header.is_control]
    assert [marker.base_offset for marker in markers] == [2, 4]
    assert not markers[0].has_delete_horizon

    log.put((b"c", b"1"))
    log.roll()
    log.clean()
    markers = [batch.header for batch in log.bench.batches() if batch.header.is_control]
    assert [marker.has_delete_horizon for marker in markers] == [True, False]
    assert log.bench.log.aborted_transactions(0, 5) == []

    log.bench.pass_ms(1001)
    log.put((b"d", b"1"))
    log.roll()
    log.clean()
    markers = [batch.header for batch in log.bench.batches() if batch.header.is_control]
    assert [marker.base_offset for marker in markers] == [4]


def test_records_are_aborted_by_a_marker_in_a_segment_that_is_not_cleaned(
    log: CompactedLog,
) -> None:
    log.put((b"a", b"committed"))
    log.put((b"a", b"x"), producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    log.roll()
    log.bench.end_transaction(7, committed=False)

    log.clean()

    assert (0, b"a", b"committed") in log.contents()
    assert all(value != b"x" for _, _, value in log.contents())


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(log: CompactedLog) -> None:
    log.put((b"a", b"1"), producer_id=7, producer_epoch=3, base_sequence=0)
    log.put((b"a", b"2"), producer_id=7, producer_epoch=3, base_sequence=1)
    log.put((b"a", b"3"))
    log.roll()
    known = list(log.bench.log.producers.active())

    log.clean()

    empty = log.bench.batches()[0].header
    assert (empty.base_offset, empty.record_count, empty.last_sequence) == (1, 0, 1)
    for name in log.bench.names(".snapshot"):
        log.bench.files.remove(f"{log.bench.log.directory}/{name}")
    log.bench.load(recovery_point=log.bench.log.recovery_point)
    assert list(log.bench.log.producers.active()) == known


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_batches_stay_compressed(log: CompactedLog, codec: Codec) -> None:
    log.put((b"a", b"1" * 50), (b"b", b"2" * 50), codec=codec)
    log.put((b"a", None), codec=codec)
    log.roll()

    log.clean()

    assert log.contents() == [(1, b"b", b"2" * 50), (2, b"a", None)]
    assert {batch.header.codec for batch in log.bench.batches()} == {codec}


def test_a_log_that_was_cut_meanwhile_takes_nothing_from_the_pass(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.put((b"a", b"2"))
    log.roll()
    log.put((b"a", b"3"))
    inner = log.bench.log
    dirty = dirty_range(inner, 2, log.bench.now)
    assert dirty is not None
    compaction = Compaction(plan_compaction(inner, dirty, MEMORY, log.bench.now))
    while compaction.finished is None:
        compaction.run_slice()

    inner.truncate_to(1, log.bench.now)

    assert not can_swap(inner, compaction.finished, compaction.plan.generation)
    compaction.abandon()
    assert log.bench.names(".cleaned") == []
    assert log.contents() == [(0, b"a", b"1")]


def test_truncation_lowers_how_far_a_log_is_cleaned(log: CompactedLog) -> None:
    log.put((b"a", b"1"))
    log.roll()
    log.put((b"a", b"2"))
    log.roll()
    log.clean()
    assert log.bench.log.first_dirty_offset == 2

    log.bench.log.truncate_to(1, log.bench.now)

    assert log.bench.log.first_dirty_offset <= 1


def test_long_work_comes_in_slices(new_log: Any) -> None:
    log = new_log()
    for at in range(40):
        log.put((b"%d" % at, b"v" * 50_000))
    log.roll()

    done = log.clean()

    assert done is not None
    assert done.slices > 4
    assert len(log.contents()) == 40


_ENTRY = st.tuples(st.sampled_from([b"a", b"b", b"c" * 20]), st.sampled_from([b"1", b"2", None]))
_BATCH = st.lists(_ENTRY, min_size=1, max_size=3).map(tuple)
_PRODUCER = st.sampled_from([None, 7, 8])
_STEP = st.one_of(
    st.tuples(st.just("put"), _PRODUCER, _BATCH),
    st.tuples(st.just("end"), st.sampled_from([7, 8]), st.booleans()),
    st.just(("roll",)),
    st.just(("clean",)),
    st.just(("wait",)),
)
_Table = dict[bytes | None, bytes | None]


class _Told(NamedTuple):
    """A record as it was produced."""

    offset: int
    producer: int | None
    key: bytes
    value: bytes | None


class _Uncleaned:
    """What a reader of committed records finds as long as nothing is cleaned."""

    def __init__(self, log: CompactedLog) -> None:
        self.log = log
        self.decided: list[_Told] = []
        self.open: dict[int, list[_Told]] = {}
        self.sequences = {7: 0, 8: 0}

    def put(self, producer: int | None, entries: tuple[tuple[bytes, bytes | None], ...]) -> None:
        at = self.log.bench.log.end_offset
        told = [_Told(at + i, producer, *entry) for i, entry in enumerate(entries)]
        if producer is None:
            self.log.put(*entries)
            self.decided += told
            return
        self.log.put(
            *entries,
            producer_id=producer,
            producer_epoch=0,
            base_sequence=self.sequences[producer],
            transactional=True,
        )
        self.sequences[producer] += len(entries)
        self.open.setdefault(producer, []).extend(told)

    def end(self, producer: int, committed: bool) -> None:
        told = self.open.pop(producer, None)
        if told is not None:
            self.log.bench.end_transaction(producer, committed=committed)
            self.decided += told if committed else []

    @property
    def stable_offset(self) -> int:
        first = (told[0].offset for told in self.open.values())
        return min(first, default=self.log.bench.log.end_offset)

    def table(self) -> _Table:
        """Keys and their newest committed values."""
        below = [told for told in self.decided if told.offset < self.stable_offset]
        return _alive({told.key: told.value for told in sorted(below)})


def _committed_table(log: CompactedLog, stable_offset: int) -> _Table:
    """The same, read from the log as it is."""
    aborted = log.bench.log.aborted_transactions(0, stable_offset)
    table: _Table = {}
    for batch in log.bench.batches():
        header = batch.header
        is_aborted = header.is_transactional and any(
            entry.producer_id == header.producer_id
            and entry.first_offset <= header.base_offset < entry.last_offset
            for entry in aborted
        )
        if header.base_offset < stable_offset and not header.is_control and not is_aborted:
            table.update({record.key: record.value for record in records_of(batch.data)})
    return _alive(table)


def _alive(table: _Table) -> _Table:
    return {key: value for key, value in table.items() if value is not None}


@settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps=st.lists(_STEP, min_size=10, max_size=40))
def test_a_reader_of_the_whole_log_ends_with_the_same_table_as_without_cleaning(
    new_log: Callable[..., CompactedLog], steps: list[Any]
) -> None:
    log = new_log(delete_retention_ms=50)
    bench = log.bench
    uncleaned = _Uncleaned(log)
    for what, *how in steps:
        if what == "roll":
            if bench.log.segments.active.size:
                log.roll()
        elif what == "clean":
            log.clean(stable=uncleaned.stable_offset)
        elif what == "wait":
            bench.pass_ms(30)
        elif what == "put":
            uncleaned.put(*how)
        else:
            uncleaned.end(*how)
        offsets = [offset for offset, _, _ in log.contents()]
        assert offsets == sorted(set(offsets))
        assert _committed_table(log, uncleaned.stable_offset) == uncleaned.table()
    end = bench.log.end_offset
    bench.log.sync()
    bench.load(recovery_point=end)
    assert bench.log.end_offset == end


@pytest.mark.parametrize(
    ("position", "damage"),
    [(3, b"\x80"), (8, b"\x00\x00\x10"), (26, b"\x40"), (65, b"?")],
    ids=["base offset", "length", "last offset", "key"],
)
def test_a_damaged_batch_ends_the_pass_and_is_left_as_it_is(
    log: CompactedLog, position: int, damage: bytes
) -> None:
    for at in range(6):
        log.put((b"k%d" % (at % 2), b"%d" % at))
    log.roll()
    bench = log.bench
    second = bench.batches()[1]
    bench.files.damage(bench.path(0), second.position + position, damage)
    before = bytes(bench.files.file_at(bench.path(0)).data)

    with pytest.raises(CorruptBatch):
        log.clean()
    assert bytes(bench.files.file_at(bench.path(0)).data) == before
