"""Appending to a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import DiskError, ErrorCode, InvariantBroken, Refusal
from tidelog.records.batch import CorruptBatch, read_header
from tidelog.records.builder import build_batch
from tidelog.records.control_batch import ControlKind, control_record, end_txn_marker
from tidelog.records.rewriting import without_records
from tidelog.records.validation import AcceptedBatch
from tidelog.simulator.disk.disk_operation import Appended as BytesAppended
from tidelog.simulator.disk.disk_operation import FileSynced
from tidelog.storage.identity import read_topic_id
from tidelog.storage.log_values import Appended
from tidelog.storage.producer import Origin

if TYPE_CHECKING:
    from tests.storage.conftest import LogBench, NewBench


def test_a_leader_gives_consecutive_offsets_and_its_epoch_in_place(bench: LogBench) -> None:
    first, second = bench.batch(3), bench.batch(2)

    assert bench.log.append_as_leader(first, 7, bench.now) == Appended(0, 2, -1, False)
    assert bench.log.append_as_leader(second, 7, bench.now) == Appended(3, 4, -1, False)
    header = read_header(second.data)
    assert (header.base_offset, header.leader_epoch) == (3, 7)
    assert bench.log.end_offset == 5
    assert bench.contents() == [bytes(first.data), bytes(second.data)]
    bench.check()


def test_a_batch_is_written_with_one_append_to_the_log_file(bench: LogBench) -> None:
    bench.append()
    before = len(bench.files.trace)

    bench.append()

    assert [type(operation) for operation in bench.files.trace[before:]] == [BytesAppended]


def test_log_append_time_is_answered_and_create_time_is_not(bench: LogBench) -> None:
    assert bench.append(log_append_time_ms=99).timestamp == 99
    assert bench.append().timestamp == -1


def test_a_repeated_batch_is_answered_with_the_offsets_it_has(bench: LogBench) -> None:
    bench.append(producer_id=5, producer_epoch=0, base_sequence=0, count=2)
    bench.append()

    again = bench.append(producer_id=5, producer_epoch=0, base_sequence=0, count=2)

    assert again == Appended(0, 1, -1, True)
    assert bench.log.end_offset == 3
    bench.check()


def test_a_gap_in_the_sequence_is_refused_and_nothing_is_written(bench: LogBench) -> None:
    bench.append(producer_id=5, producer_epoch=0, base_sequence=0)
    gap = bench.batch(producer_id=5, producer_epoch=0, base_sequence=5)

    assert bench.refused(gap).code == ErrorCode.out_of_order_sequence_number
    assert bench.log.end_offset == 1


def test_a_batch_larger_than_a_segment_is_refused(new_bench: NewBench) -> None:
    bench = new_bench(segment_bytes=500)

    refusal = bench.refused(bench.batch(value=b"x" * 1000))

    assert refusal.code == ErrorCode.record_list_too_large
    assert bench.log.end_offset == 0


def test_a_new_epoch_is_on_disk_before_its_first_batch(bench: LogBench) -> None:
    bench.append(epoch=1)
    before = len(bench.files.trace)
    bench.append(epoch=4)

    paths = [operation.path for operation in bench.files.trace[before:]]
    assert paths[-1] == bench.path(0)
    assert any("leader-epoch-checkpoint" in path for path in paths[:-1])
    assert [tuple(entry) for entry in bench.log.epochs.entries] == [(1, 0), (4, 1)]


def test_an_epoch_never_steps_back(bench: LogBench) -> None:
    bench.append(epoch=4)

    with pytest.raises(InvariantBroken):
        bench.append(epoch=3)


def test_the_topic_id_is_durable_before_the_first_record(bench: LogBench) -> None:
    assert read_topic_id(bench.files, bench.log.directory) == bench.log.topic_id
    bench.append()

    synced = [
        at
        for at, operation in enumerate(bench.files.trace)
        if isinstance(operation, FileSynced) and "partition.metadata" in operation.path
    ]
    written = [
        at
        for at, operation in enumerate(bench.files.trace)
        if isinstance(operation, BytesAppended) and operation.path.endswith(".log")
    ]
    assert synced
    assert synced[0] < written[0]
    assert read_topic_id(bench.files, bench.log.directory) == bench.log.topic_id


def test_index_entries_name_the_last_offset_and_the_start_of_a_batch(bench: LogBench) -> None:
    for _ in range(20):
        bench.append(2)

    entries = list(bench.log.segments.active.offset_index.entries())
    by_position = {batch.position: batch.header for batch in bench.batches()}
    assert len(entries) > 3
    assert all(by_position[position].last_offset == offset for offset, position in entries)
    bench.check()


@pytest.mark.parametrize("failing", [".log", ".index", ".timeindex"])
def test_after_a_failed_write_no_offset_is_used_twice_and_nothing_is_appended(
    new_bench: NewBench, failing: str
) -> None:
    bench = new_bench(index_interval_bytes=0)
    bench.append()
    bench.files.fail_when(
        lambda operation: isinstance(operation, BytesAppended) and operation.path.endswith(failing),
        written=7,
    )

    refusal = bench.refused(bench.batch())
    bench.files.heal()

    assert refusal.code == ErrorCode.kafka_storage_error
    assert bench.refused(bench.batch()).code == ErrorCode.kafka_storage_error
    assert bench.log.health.offline_reason is not None
    stored = 1 if failing == ".log" else 2
    assert bench.log.end_offset == stored
    assert bench.log.segments.active.size == sum(map(len, bench.contents()))
    bench.load()
    assert bench.log.end_offset == stored
    bench.check()


def test_a_directory_that_failed_is_left_alone(bench: LogBench) -> None:
    bench.append()
    bench.health.fail("no space")
    operations = bench.files.operation_count

    with pytest.raises(DiskError):
        bench.log.truncate_to(0, bench.now)
    with pytest.raises(DiskError):
        bench.log.delete_expired(bench.now, 1)
    assert not bench.log.needs_flush(bench.now)
    assert bench.log.flush_job() is None
    bench.log.close()
    assert bench.files.operation_count == operations


# Following


def fetched(bench: LogBench, leader: LogBench, offset: int = 0) -> memoryview:
    found = leader.log.read(offset, 1 << 20, leader.log.end_offset)
    assert found is not None
    return memoryview(found.read())


def test_a_follower_writes_what_it_fetched_byte_by_byte(new_bench: NewBench) -> None:
    leader, follower = new_bench(index_interval_bytes=200), new_bench(index_interval_bytes=200)
    for sequence, epoch in ((0, 0), (2, 0), (4, 3)):
        leader.append(2, epoch=epoch, producer_id=1, producer_epoch=0, base_sequence=sequence)
    data = fetched(follower, leader)

    appended = follower.log.append_as_follower(data, follower.now, fetch_epoch=3)

    assert appended == Appended(0, 5, -1, False)
    assert follower.contents() == leader.contents()
    assert follower.log.epochs.entries == leader.log.epochs.entries
    follower.check()


def test_a_follower_leaves_half_a_batch_for_the_next_fetch(new_bench: NewBench) -> None:
    leader, follower = new_bench(), new_bench()
    leader.append(2)
    leader.append(2)
    data = fetched(follower, leader)

    assert follower.log.append_as_follower(data[:-1], follower.now, fetch_epoch=0) == Appended(
        0, 1, -1, False
    )
    rest = fetched(follower, leader, 2)
    assert follower.log.append_as_follower(rest[:30], follower.now, fetch_epoch=0) is None
    follower.log.append_as_follower(rest, follower.now, fetch_epoch=0)
    assert follower.contents() == leader.contents()


def test_a_follower_skips_batches_of_a_later_epoch_than_its_fetch(new_bench: NewBench) -> None:
    leader, follower = new_bench(), new_bench()
    leader.append(epoch=1)
    leader.append(epoch=2)
    data = fetched(follower, leader)

    assert follower.log.append_as_follower(data, follower.now, fetch_epoch=0) is None
    follower.log.append_as_follower(data, follower.now, fetch_epoch=1)
    assert follower.log.end_offset == 1


def test_a_follower_takes_no_batch_with_a_wrong_checksum(new_bench: NewBench) -> None:
    leader, follower = new_bench(), new_bench()
    leader.append()
    data = bytearray(fetched(follower, leader))
    data[-1] ^= 1

    with pytest.raises(CorruptBatch):
        follower.log.append_as_follower(memoryview(data), follower.now, fetch_epoch=0)
    assert follower.log.end_offset == 0


def test_a_follower_takes_no_batch_that_it_has_already(new_bench: NewBench) -> None:
    leader, follower = new_bench(), new_bench()
    leader.append()
    data = fetched(follower, leader)
    follower.log.append_as_follower(data, follower.now, fetch_epoch=0)

    with pytest.raises(CorruptBatch):
        follower.log.append_as_follower(data, follower.now, fetch_epoch=0)
    assert follower.log.end_offset == 1


def test_a_follower_takes_no_epoch_that_steps_back(new_bench: NewBench) -> None:
    leader, follower = new_bench(), new_bench()
    follower.append(epoch=5)
    leader.append(epoch=1)
    leader.append(epoch=1)
    data = fetched(follower, leader, 1)

    with pytest.raises(CorruptBatch):
        follower.log.append_as_follower(data, follower.now, fetch_epoch=5)
    assert follower.log.end_offset == 1


def test_a_follower_accepts_the_gaps_that_compaction_left(new_bench: NewBench) -> None:
    follower = new_bench(cleanup_compact=True, index_interval_bytes=0)
    for base in (0, 10, 20):
        data = follower.batch(2, base_offset=base, leader_epoch=0).data
        follower.log.append_as_follower(data, follower.now, fetch_epoch=0)

    assert follower.log.end_offset == 22
    found = follower.log.read(5, 1, 22)
    assert found is not None
    assert read_header(found.read()).base_offset == 10
    follower.check()
    follower.load()
    assert follower.log.end_offset == 22
    follower.check()


def test_an_empty_follower_starts_with_a_batch_that_reaches_into_its_log(
    new_bench: NewBench,
) -> None:
    follower = new_bench()
    follower.log.truncate_fully_and_start_at(105, follower.now)
    data = follower.batch(10, base_offset=100, leader_epoch=2).data

    appended = follower.log.append_as_follower(data, follower.now, fetch_epoch=2)

    assert appended == Appended(100, 109, -1, False)
    assert follower.bases() == [100]
    assert (follower.log.start_offset, follower.log.end_offset) == (105, 110)
    assert follower.contents() == [bytes(data)]


def test_a_follower_in_a_failed_directory_writes_nothing(bench: LogBench) -> None:
    bench.append()
    before = bench.contents()
    bench.health.fail("Input/output error")
    data = bench.batch(base_offset=1, leader_epoch=0).data

    refused = bench.log.append_as_follower(data, bench.now, fetch_epoch=0)

    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.kafka_storage_error
    assert bench.contents() == before
    assert bench.log.end_offset == 1


def test_a_repeat_is_answered_with_the_time_that_the_log_gave_it(bench: LogBench) -> None:
    numbered = {"producer_id": 1, "producer_epoch": 0, "base_sequence": 0}
    first = bench.append(log_append_time_ms=99, **numbered)
    assert bench.append(log_append_time_ms=120, **numbered) == first._replace(duplicate=True)
    own = bench.append(**{**numbered, "producer_id": 2})
    assert bench.append(**{**numbered, "producer_id": 2}) == own._replace(duplicate=True)
    assert own.timestamp == -1


def written_by_coordinator(bench: LogBench, batch: bytearray) -> Appended | Refusal:
    accepted = AcceptedBatch(read_header(batch), memoryview(batch))
    return bench.log.append_as_leader(accepted, 0, bench.now, origin=Origin.COORDINATOR)


def marker(coordinator_epoch: int) -> bytearray:
    return end_txn_marker(
        producer_id=1,
        producer_epoch=0,
        committed=False,
        coordinator_epoch=coordinator_epoch,
        timestamp=0,
    )


def test_a_leader_refuses_the_marker_of_an_earlier_coordinator(bench: LogBench) -> None:
    assert isinstance(written_by_coordinator(bench, marker(5)), Appended)

    refused = written_by_coordinator(bench, marker(4))

    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.transaction_coordinator_fenced
    assert bench.log.end_offset == 1


def test_a_leader_refuses_a_control_batch_without_a_marker(bench: LogBench) -> None:
    refused = written_by_coordinator(bench, without_records(read_header(marker(5))))

    assert isinstance(refused, Refusal)
    assert refused.code is ErrorCode.invalid_record
    assert bench.log.end_offset == 0


def test_a_follower_writes_nothing_of_a_fetch_with_a_marker_that_is_none(bench: LogBench) -> None:
    bench.append()
    before = bench.contents()
    unknown = control_record(ControlKind.LEADER_CHANGE, b"", 0)
    data = build_batch(
        [unknown], base_offset=1, leader_epoch=0, producer_id=1, producer_epoch=0, control=True
    )

    with pytest.raises(CorruptBatch):
        bench.log.append_as_follower(memoryview(data), bench.now, fetch_epoch=0)

    assert bench.contents() == before
    assert bench.log.end_offset == 1
    bench.check()
