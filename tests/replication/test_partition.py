"""One partition: role, epochs, fencing, the high watermark, and those who wait for news."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.validation import BatchRules, RejectedBatch
from tidelog.simulator.disk.disk_operation import Appended as BytesAppended
from tidelog.storage.log_config import LogConfig

if TYPE_CHECKING:
    from tests.replication.conftest import NewPartition, PartitionBench


# Roles and epochs


def code_of(refused: object) -> ErrorCode:
    assert isinstance(refused, Refusal)
    return refused.code


def test_a_new_leader_notes_where_its_epoch_begins_before_any_write(
    bench: PartitionBench,
) -> None:
    assert bench.lead(3)
    assert bench.partition.is_leader
    assert bench.leader.epoch_start_offset == 0
    assert list(bench.partition.log.epochs.entries) == [(3, 0)]
    bench.append(b"a", b"b")
    assert bench.lead(5)
    assert bench.leader.epoch_start_offset == 2
    assert list(bench.partition.log.epochs.entries) == [(3, 0), (5, 2)]


def test_the_same_epoch_with_other_members_begins_nothing(bench: PartitionBench) -> None:
    bench.lead(3)
    bench.append()
    assert not bench.lead(3, 101, partition_epoch=4)
    assert bench.leader.epoch_start_offset == 0
    assert bench.partition.leadership.in_sync == (100, 101)


def test_older_metadata_is_ignored_and_equally_old_metadata_is_not(
    bench: PartitionBench,
) -> None:
    bench.lead(3, partition_epoch=7)
    assert not bench.lead(9, 101, partition_epoch=6)
    assert bench.partition.leader_epoch == 3
    assert not bench.lead(3, 101, partition_epoch=7)
    assert bench.partition.leadership.in_sync == (100, 101)


def test_a_follower_has_no_epoch_of_its_own(bench: PartitionBench) -> None:
    bench.lead(3)
    assert bench.follow(4)
    assert not bench.partition.is_leader
    assert bench.partition.leading is None
    assert list(bench.partition.log.epochs.entries) == [(3, 0)]


def test_to_lead_in_an_epoch_is_to_lead_in_it_without_a_break(bench: PartitionBench) -> None:
    bench.lead(3)
    first = bench.leader
    assert bench.partition.leader() is bench.partition.leader(3) is first
    assert not first.is_over
    bench.follow(4)
    assert first.is_over
    assert code_of(bench.partition.leader(4)) is ErrorCode.not_leader_or_follower
    bench.lead(5)
    assert code_of(bench.partition.leader(3)) is ErrorCode.fenced_leader_epoch
    assert code_of(bench.partition.leader(6)) is ErrorCode.unknown_leader_epoch
    assert bench.partition.leader() is bench.partition.leader(5) is bench.leader is not first


def test_a_request_of_another_epoch_is_fenced(bench: PartitionBench) -> None:
    bench.lead(3)
    codes = [
        fenced and fenced.code
        for fenced in (bench.partition.fence(epoch) for epoch in (-1, 2, 3, 4))
    ]
    assert codes == [
        None,
        ErrorCode.fenced_leader_epoch,
        None,
        ErrorCode.unknown_leader_epoch,
    ]


def test_two_logs_part_where_the_epoch_of_the_reader_ends_here(bench: PartitionBench) -> None:
    bench.lead(3)
    bench.append(b"a", b"b")
    bench.lead(5)
    bench.append(b"c")
    partition = bench.partition
    assert partition.divergence(3, 2) is None
    assert partition.divergence(3, 3) == (3, 2)
    assert partition.divergence(4, 2) == (3, 2), "an epoch that wrote nothing here"
    assert partition.divergence(5, 3) is None
    assert partition.divergence(5, 4) == (5, 3)
    assert partition.divergence(2, 0) is None, "below all epochs known here"
    assert partition.divergence(2, 1) == (2, 0)
    assert partition.divergence(9, 1) == (-1, -1)


# The high watermark


def test_a_sole_leader_commits_what_it_appends(bench: PartitionBench) -> None:
    bench.lead(0)
    bench.append(b"a", b"b")
    assert bench.partition.high_watermark.offset == 2
    assert not bench.leader.is_high_watermark_behind_epoch


def test_the_high_watermark_waits_for_followers_that_are_in_sync(bench: PartitionBench) -> None:
    bench.lead(0, 101)
    bench.append(b"a")
    assert bench.partition.high_watermark.offset == 0
    bench.lead(1, 101)
    assert bench.leader.is_high_watermark_behind_epoch
    bench.lead(1, partition_epoch=2)
    assert bench.partition.high_watermark.offset == 1, "the follower left the ISR"
    assert not bench.leader.is_high_watermark_behind_epoch


def test_a_high_watermark_from_a_checkpoint_is_kept_within_the_log(
    new_partition: NewPartition,
) -> None:
    assert new_partition(high_watermark=77).partition.high_watermark.offset == 0


def test_a_raised_start_takes_the_high_watermark_and_its_readers_along(
    bench: PartitionBench,
) -> None:
    bench.lead(0)
    bench.append(b"a", b"b", b"c")
    watching = bench.watch()
    bench.partition.raise_start_to(2)
    assert bench.partition.log.start_offset == 2
    assert bench.partition.high_watermark.offset == 3
    assert watching.told == [0]


# Appending


def test_a_repeated_batch_is_no_news(bench: PartitionBench) -> None:
    bench.lead(0)
    sent = build_batch(
        [NewRecord(b"k", b"v", bench.now.wall_ms)],
        producer_id=7,
        producer_epoch=0,
        base_sequence=0,
    )
    bench.leader.append(memoryview(bytearray(sent)), bench.now, 9)
    watching = bench.watch()
    again = bench.leader.append(memoryview(bytearray(sent)), bench.now, 9)
    assert not isinstance(again, RejectedBatch)
    assert (again.first_offset, again.duplicate) == (0, True)
    assert watching.told == []


def test_what_cannot_be_written_is_refused_and_is_no_news(bench: PartitionBench) -> None:
    bench.lead(0)
    watching = bench.watch()
    bench.files.fail_when(lambda operation: isinstance(operation, BytesAppended))
    batch = build_batch([NewRecord(b"k", b"v", bench.now.wall_ms)])
    refused = bench.leader.append(memoryview(batch), bench.now, 9)
    assert isinstance(refused, RejectedBatch)
    assert refused.refusal.code == ErrorCode.kafka_storage_error
    assert bench.partition.log.end_offset == 0
    assert watching.told == []


def test_changed_rules_hold_for_the_next_batch(bench: PartitionBench) -> None:
    bench.lead(0)
    bench.append(b"x" * 200)
    bench.partition.configure(LogConfig(), BatchRules(max_message_bytes=100), 1, bench.now)
    batch = build_batch([NewRecord(b"k", b"x" * 200, bench.now.wall_ms)])
    refused = bench.leader.append(memoryview(batch), bench.now, 9)
    assert isinstance(refused, RejectedBatch)
    assert isinstance(refused.refusal, Refusal)


# Flushes that answers wait for


def test_no_flush_is_owed_unless_the_topic_asks_for_it(bench: PartitionBench) -> None:
    bench.lead(0)
    bench.append()
    assert bench.partition.owed_flush is None
    assert bench.partition.flushes_under_way == 0


def test_the_high_watermark_follows_the_owed_flushes_one_by_one(
    new_partition: NewPartition,
) -> None:
    bench = new_partition(flush_messages=1)
    partition = bench.partition
    bench.lead(0)
    watching = bench.watch()
    jobs = []
    for value in (b"a", b"b"):
        bench.append(value)
        assert partition.owed_flush is not None
        jobs.append(partition.owed_flush)
        partition.owed_flush = None
    assert (partition.flushes_under_way, partition.high_watermark.offset) == (2, 0)
    jobs[0].run()
    partition.flushed(jobs[0], None, bench.now)
    assert (partition.flushes_under_way, partition.high_watermark.offset) == (1, 1)
    jobs[1].run()
    partition.flushed(jobs[1], None, bench.now)
    assert partition.high_watermark.offset == 2
    assert sum(watching.told) == partition.log.size_bytes


def test_after_a_failed_flush_the_high_watermark_stands_for_good(
    new_partition: NewPartition,
) -> None:
    bench = new_partition(flush_messages=1)
    bench.lead(0)
    bench.append()
    job = bench.partition.owed_flush
    assert job is not None
    bench.partition.flushed(job, "Input/output error", bench.now)
    assert bench.partition.high_watermark.offset == 0
    assert bench.health.offline_reason == "Input/output error"


def test_a_flush_that_ends_under_another_leader_commits_nothing(
    new_partition: NewPartition,
) -> None:
    bench = new_partition(flush_messages=1)
    bench.lead(0)
    bench.append()
    job = bench.partition.owed_flush
    assert job is not None
    job.run()
    bench.follow(1)
    bench.partition.flushed(job, None, bench.now)
    assert bench.partition.high_watermark.offset == 0


# Those who wait


@pytest.mark.parametrize("leave", [True, False])
def test_watchers_are_told_of_bytes_until_they_leave(bench: PartitionBench, leave: bool) -> None:
    bench.lead(0)
    watching = bench.watch()
    size = len(build_batch([NewRecord(b"key", b"a", bench.now.wall_ms)]))
    bench.append(b"a")
    if leave:
        bench.partition.watchers.remove(watching)
        bench.partition.watchers.remove(watching)
    bench.append(b"b")
    assert watching.told == ([size] if leave else [size, size])


def test_watchers_are_told_of_every_change_of_role(bench: PartitionBench) -> None:
    watching = bench.watch()
    bench.lead(0)
    bench.follow(1)
    bench.partition.went_offline()
    assert watching.told == [0, 0, 0]


def test_an_abandoned_partition_tells_its_watchers_once_and_leads_no_more(
    bench: PartitionBench,
) -> None:
    bench.lead(0)
    watching = bench.watch()
    bench.partition.abandon()
    bench.partition.went_offline()
    assert watching.told == [0]
    assert not bench.partition.is_leader
