"""A follower whose leader refuses, whose offset is out of range, or whose disk lets it down."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.replication.leader_answers import answer, batch, offsets

from tidelog.model.errors import ErrorCode
from tidelog.observe.events import LogTruncated
from tidelog.replication.messages import (
    BackOff,
    Dropped,
    Failed,
    FetchState,
    NeedsOffsets,
    Progress,
)
from tidelog.simulator.disk.disk_operation import Appended as BytesAppended
from tidelog.simulator.disk.disk_operation import FileCut

if TYPE_CHECKING:
    from tests.replication.cluster import Cluster
    from tests.replication.conftest import PartitionBench


# Refusals


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.inconsistent_topic_id,
        ErrorCode.kafka_storage_error,
        ErrorCode.offset_moved_to_tiered_storage,
        ErrorCode.unknown_server_error,
    ],
)
def test_a_refusal_that_time_may_heal_is_tried_again_after_a_pause(
    bench: PartitionBench, error: ErrorCode
) -> None:
    bench.follow(1)
    step = bench.follower.fetched(answer(bench, error=error), bench.now)
    assert isinstance(step, BackOff)
    assert step.pause_ms == 1000
    assert bench.follower.may_fetch


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.unknown_leader_epoch,
        ErrorCode.not_leader_or_follower,
        ErrorCode.unknown_topic_id,
        ErrorCode.unknown_topic_or_partition,
    ],
)
def test_a_leader_that_has_not_heard_of_its_epoch_is_asked_again_soon_and_then_less_often(
    bench: PartitionBench, error: ErrorCode
) -> None:
    bench.follow(1)
    pauses = []
    for _ in range(9):
        step = bench.follower.fetched(answer(bench, error=error), bench.now)
        assert isinstance(step, BackOff)
        pauses.append(step.pause_ms)
    assert pauses == [10, 20, 40, 80, 160, 320, 640, 1000, 1000]


def test_a_fenced_follower_asks_no_more_until_it_hears_of_a_new_epoch(
    bench: PartitionBench,
) -> None:
    bench.follow(1)
    fenced = answer(bench, error=ErrorCode.fenced_leader_epoch)
    assert isinstance(bench.follower.fetched(fenced, bench.now), Failed)
    assert not bench.follower.may_fetch
    assert bench.follower.fetched(fenced, bench.now) == Dropped()
    bench.follow(2)
    assert bench.follower.may_fetch


def test_a_disk_that_fails_makes_the_follower_fail(bench: PartitionBench) -> None:
    bench.follow(1)
    bench.files.fail_when(lambda operation: isinstance(operation, BytesAppended))
    step = bench.follower.fetched(answer(bench, batch(0), high_watermark=1), bench.now)
    assert isinstance(step, Failed)
    assert bench.follower.failed_because == step.why
    assert bench.partition.high_watermark.offset == 0


@pytest.mark.parametrize("when", ["diverging", "offsets", "prepare"])
def test_a_disk_that_fails_while_cutting_makes_the_follower_fail(
    bench: PartitionBench, when: str
) -> None:
    bench.lead(1, 101)
    bench.append(b"a")
    bench.files.fail_when(lambda operation: isinstance(operation, FileCut))
    if when == "prepare":
        bench.partition.log.epochs.clear()
    bench.follow(2)
    if when == "diverging":
        told = answer(bench)._replace(diverging_epoch=(1, 0))
        assert isinstance(bench.follower.fetched(told, bench.now), Failed)
    elif when == "offsets":
        assert isinstance(bench.follower.offsets_told(offsets(bench, 0, 0), bench.now), Failed)
    assert not bench.follower.may_fetch
    assert bench.health.offline_reason is not None


# Out of range


def test_out_of_range_asks_where_the_leaders_log_lies(bench: PartitionBench) -> None:
    bench.follow(1)
    refused = answer(bench, error=ErrorCode.offset_out_of_range)
    assert bench.follower.fetched(refused, bench.now) == NeedsOffsets()


def test_a_log_longer_than_its_leaders_is_cut_to_it(bench: PartitionBench) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.append(b"b")
    bench.follow(2)
    step = bench.follower.offsets_told(offsets(bench, 0, 1), bench.now)
    assert step == Progress(truncated=True)
    assert (bench.partition.log.end_offset, bench.partition.high_watermark.offset) == (1, 1)


def test_a_log_that_ends_before_its_leaders_begins_starts_anew_there(
    bench: PartitionBench,
) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.follow(2)
    step = bench.follower.offsets_told(offsets(bench, 50, 60), bench.now)
    assert step == Progress(truncated=True)
    log = bench.partition.log
    assert (log.start_offset, log.end_offset) == (50, 50)
    assert bench.partition.high_watermark.offset == 50
    assert bench.follower.fetch_state == FetchState(50, 2, -1, 50)
    [cut] = [event for event in bench.events if isinstance(event, LogTruncated)]
    assert cut.cause == "the log of leader 101 begins only at 50"


def test_the_first_batch_of_such_a_log_may_begin_before_it(bench: PartitionBench) -> None:
    bench.follow(2)
    bench.follower.offsets_told(offsets(bench, 51, 60), bench.now)
    sent = batch(50, b"a", b"b", b"c")
    step = bench.follower.fetched(answer(bench, sent, high_watermark=53, start=51), bench.now)
    assert isinstance(step, Progress)
    log = bench.partition.log
    assert (log.start_offset, log.end_offset) == (51, 53)


def test_a_leader_that_has_the_offset_and_refuses_it_is_asked_again_after_a_pause(
    bench: PartitionBench,
) -> None:
    bench.lead(1)
    bench.append(b"a")
    bench.follow(2)
    step = bench.follower.offsets_told(offsets(bench, 0, 9), bench.now)
    assert isinstance(step, BackOff)
    assert bench.partition.log.end_offset == 1


# Damage


def test_a_log_damaged_on_disk_is_cut_there_and_fetched_again(cluster: Cluster) -> None:
    cluster.lead(101)
    for value in (b"a", b"b", b"c"):
        cluster.append(101, value)
    cluster.settle(100, 102)
    broker = cluster[102]
    broker.log.sync()
    durable = broker.log.end_offset
    broker.files.damage("/data/orders-0/00000000000000000000.log", 100, b"damage")
    broker.crash()
    broker.start(3, cluster.now, recovery_point=durable)
    assert [damage.in_place for damage in broker.log.damage] == [True]
    broker.broker_epoch = cluster.controller.register(102)
    cluster.tell()
    [cut] = [event for event in broker.events if isinstance(event, LogTruncated)]
    assert (cut.end_offset_before, cut.end_offset) == (3, 1)
    cluster.settle(102)
    assert list(broker.batches()) == list(cluster[101].batches())
    cluster.lead(100)
    cluster.settle(101, 102)
    assert broker.log.end_offset == 3, "it is repaired: nothing is cut again"
