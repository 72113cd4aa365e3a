"""A cleaning pass over transactions: no aborted record is read, no committed one is lost."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.compacted_log import CompactedLog, log, new_log
from tests.tiers import examples

from tidelog.records.record import records_of

__all__ = ["log", "new_log"]


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
    max_examples=examples(150),
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
