"""How what is known of producers comes back: after a start, a truncation, a crash."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from tidelog.model.errors import Refusal
from tidelog.records.batch import TRANSACTIONAL, BatchHeader
from tidelog.records.control_batch import TransactionMarker
from tidelog.simulator.disk.crash import (
    DataFate,
    after_crash,
    crashes,
    data_kept,
    data_lost,
    data_torn_at,
    names_undone,
    page_zeroed,
)
from tidelog.simulator.disk.memory_filesystem import MemoryFileSystem
from tidelog.storage.producer import Duplicate, Origin
from tidelog.storage.producer_state import ProducerState

LAST_SEQUENCE = 2**31 - 1
COMMIT = TransactionMarker(True, 0)


def disk() -> MemoryFileSystem:
    files = MemoryFileSystem()
    files.make_directory("/log")
    files.sync_directory("/")
    return files


def state_on(files: MemoryFileSystem) -> ProducerState:
    return ProducerState(files, "/log", 60_000)


def batch(
    sequence: int, count: int = 1, *, producer: int = 7, epoch: int = 0, transactional: bool = False
) -> BatchHeader:
    attributes = TRANSACTIONAL if transactional else 0
    return BatchHeader(
        0, 100, 0, 2, 0, attributes, count - 1, 1000, 1000, producer, epoch, sequence, count
    )


def last_sequences(state: ProducerState) -> dict[int, int]:
    return {known.producer_id: known.last_sequence for known in state.active()}


def test_a_snapshot_brings_back_sequences_epochs_and_open_transactions() -> None:
    files = disk()
    state = state_on(files)
    wrapping = batch(LAST_SEQUENCE - 1, 4, producer=8, transactional=True)
    state.update(batch(0, 3, epoch=2), 0, 2)
    state.update(wrapping, 3, 6)
    state.end_transaction(batch(-1, producer=9, epoch=5, transactional=True), COMMIT, 7)
    state.take_snapshot(8)

    again = state_on(files)
    assert again.load(0, 8, 2000) == 8

    assert set(again.active()) == set(state.active())
    assert again.first_unstable_offset(100) == 3
    assert again.check(batch(0, 3, epoch=2), Origin.CLIENT) == Duplicate(0, 2, 1000)
    assert again.check(wrapping, Origin.CLIENT) == Duplicate(3, 6, 1000)
    assert again.check(batch(2, producer=8, transactional=True), Origin.CLIENT) is None


def test_a_batch_of_a_coordinator_survives_a_snapshot() -> None:
    state = state_on(disk())
    state.update(batch(-1, 2, transactional=True), 0, 1)
    state.take_snapshot(2)

    assert state.load(0, 2, 2000) == 2
    assert last_sequences(state) == {7: -1}
    assert state.first_unstable_offset(9) == 0


def test_loading_forgets_what_had_expired_but_no_open_transaction() -> None:
    state = state_on(disk())
    state.update(batch(0, producer=7), 0, 0)
    state.update(batch(0, producer=8, transactional=True), 1, 1)
    state.take_snapshot(2)

    state.load(0, 2, 10**9)

    assert last_sequences(state) == {8: 0}


def test_loading_without_snapshot_starts_at_the_start_of_the_log() -> None:
    state = state_on(disk())
    state.update(batch(0), 0, 0)

    assert state.load(5, 20, 2000) == 5
    assert len(state) == 0


def test_truncation_goes_back_to_the_last_snapshot_below_it() -> None:
    state = state_on(disk())
    state.update(batch(0), 0, 0)
    state.take_snapshot(1)
    state.update(batch(1, transactional=True), 1, 1)
    state.take_snapshot(2)
    state.update(batch(2, transactional=True), 2, 2)

    assert state.load(0, 1, 2000) == 1

    assert state.snapshots.offsets() == [1]
    assert last_sequences(state) == {7: 0}
    assert state.first_unstable_offset(9) is None


def test_snapshots_outside_of_the_log_are_removed_and_the_directory_is_to_be_synced() -> None:
    files = disk()
    state = state_on(files)
    for end in (2, 5, 9, 12):
        state.take_snapshot(end)
    files.sync_directory("/log")

    state.load(2, 9, 2000)

    assert state.snapshots.offsets() == [5, 9]
    assert state.snapshots.may_come_back
    files.sync_directory("/log")
    assert state_on(after_crash(files, names=names_undone)).snapshots.offsets() == [5, 9]


def test_a_damaged_snapshot_is_removed_and_the_one_before_it_taken() -> None:
    files = disk()
    state = state_on(files)
    state.update(batch(0), 0, 0)
    state.take_snapshot(1)
    state.update(batch(1), 1, 1)
    files.damage(state.take_snapshot(2), 20, b"\xff")

    assert state.load(0, 2, 2000) == 1

    assert state.snapshots.offsets() == [1]
    assert last_sequences(state) == {7: 0}


@pytest.mark.parametrize("data", [data_kept, data_lost, page_zeroed(0), data_torn_at(30)])
def test_a_crash_while_a_snapshot_is_written_costs_only_the_replay(data: DataFate) -> None:
    files = disk()
    state = state_on(files)
    state.update(batch(0), 0, 0)
    state.take_snapshot(1)
    state.snapshots.sync(1)
    state.update(batch(1), 1, 1)
    state.take_snapshot(2)

    for after in crashes(files, data):
        found = state_on(after)
        loaded = found.load(0, 2, 2000)
        assert last_sequences(found) == [{}, {7: 0}, {7: 1}][loaded]


def test_a_snapshot_is_written_once_per_offset() -> None:
    files = disk()
    state = state_on(files)
    state.update(batch(0), 0, 0)
    path = state.take_snapshot(1)
    before = files.operation_count

    assert state.take_snapshot(1) == path
    assert files.operation_count == before
    state.snapshots.remove([1])
    state.take_snapshot(1)
    assert state.snapshots.offsets() == [1]


def test_starting_over_forgets_producers_transactions_and_snapshots() -> None:
    state = state_on(disk())
    state.update(batch(0, transactional=True), 0, 0)
    state.take_snapshot(1)

    state.clear()

    assert len(state) == 0
    assert state.first_unstable_offset(9) is None
    assert state.snapshots.offsets() == []


def test_snapshots_go_where_the_log_was_moved() -> None:
    files = disk()
    state = state_on(files)
    files.rename("/log", "/gone")

    state.moved_to("/gone")

    assert state.take_snapshot(3) == "/gone/00000000000000000003.snapshot"


class Leader:
    """A log that keeps what it accepted."""

    def __init__(self) -> None:
        self.files = disk()
        self.state = state_on(self.files)
        self.accepted: list[tuple[int, BatchHeader, TransactionMarker | None]] = []
        self.end = 0

    def send(self, header: BatchHeader) -> None:
        verdict = self.state.check(header, Origin.CLIENT)
        if isinstance(verdict, Refusal | Duplicate):
            return
        self.accepted.append((self.end, header, None))
        self.state.update(header, self.end, self.end + header.last_offset_delta)
        self.end += header.last_offset_delta + 1

    def mark(self, producer: int, marker: TransactionMarker) -> None:
        header = batch(-1, producer=producer, transactional=True)
        self.accepted.append((self.end, header, marker))
        self.state.end_transaction(header, marker, self.end)
        self.end += 1

    def replay_into(self, state: ProducerState, start: int) -> None:
        for offset, header, marker in self.accepted:
            if offset >= start and marker is None:
                state.update(header, offset, offset + header.last_offset_delta)
            elif offset >= start and marker is not None:
                state.end_transaction(header, marker, offset)


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["send", "send", "send", "repeat", "skip", "commit", "abort"]),
        st.integers(1, 3),
        st.integers(1, 3),
        st.booleans(),
    ),
    max_size=40,
)


def leader_after(steps: list[tuple[str, int, int, bool]], snapshot_after: int) -> Leader:
    leader = Leader()
    for number, (act, producer, count, transactional) in enumerate(steps):
        if number == snapshot_after:
            leader.state.take_snapshot(leader.end)
        if act in ("commit", "abort"):
            leader.mark(producer, TransactionMarker(act == "commit", number))
            continue
        following = last_sequences(leader.state).get(producer, -1) + 1
        sequence = {"send": following, "repeat": max(0, following - count), "skip": 99}[act]
        leader.send(batch(sequence, count, producer=producer, transactional=transactional))
    return leader


@settings(max_examples=examples(200), deadline=None)
@given(STEPS, st.integers(0, 40))
def test_the_state_is_that_of_replaying_the_log_from_any_snapshot(
    steps: list[tuple[str, int, int, bool]], snapshot_after: int
) -> None:
    leader = leader_after(steps, snapshot_after)

    from_scratch = state_on(disk())
    leader.replay_into(from_scratch, 0)
    from_snapshot = state_on(leader.files)
    leader.replay_into(from_snapshot, from_snapshot.load(0, leader.end, 2000))

    for replica in (from_scratch, from_snapshot):
        assert sorted(replica.active()) == sorted(leader.state.active())
        unstable = replica.first_unstable_offset(leader.end)
        assert unstable == leader.state.first_unstable_offset(leader.end)


@settings(max_examples=examples(200), deadline=None)
@given(STEPS)
def test_the_log_holds_every_sequence_of_a_producer_once_and_in_order(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    sequences: dict[int, list[int]] = {}
    for _, header, marker in leader_after(steps, -1).accepted:
        if marker is None:
            run = sequences.setdefault(header.producer_id, [])
            run.extend(range(header.base_sequence, header.base_sequence + header.record_count))

    for run in sequences.values():
        assert run == list(range(run[0], run[0] + len(run)))
