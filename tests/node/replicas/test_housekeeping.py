"""What a broker does by the clock: retention, checkpoints, flushes, expiry."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.observe.events import SegmentDeleted
from tidelog.simulator.disk.crash import after_crash
from tidelog.simulator.disk.disk_operation import Renamed
from tidelog.storage.checkpoint import (
    HIGH_WATERMARKS,
    LOG_STARTS,
    RECOVERY_POINTS,
    OffsetCheckpoint,
)

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

ORDERS = TopicPartition("orders", 0)
MINUTE_MS = 60_000
CHUNK = b"x" * 600_000


def checkpoint(bench: NodeBench, name: str) -> dict[TopicPartition, int]:
    return dict(OffsetCheckpoint(bench.files, f"/data/{name}").read())


def fill(bench: NodeBench, peer: Peer, batch: NewBatch, chunks: int) -> None:
    """Every chunk but the first begins a segment."""
    for _ in range(chunks):
        sent = batch(CHUNK, timestamp=bench.now.wall_ms)
        assert peer.produce("orders", sent).error == 0


# Retention


def test_segments_older_than_retention_ms_go(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    bench.create_topic("orders", segment_bytes="1048576", retention_ms=str(10 * MINUTE_MS))
    fill(bench, peer, batch, 2)
    bench.wait(8 * MINUTE_MS)
    fill(bench, peer, batch, 1)
    bench.wait(8 * MINUTE_MS)

    gone = bench.of_kind(SegmentDeleted)
    assert [event.base_offset for event in gone] == [0, 1]
    assert gone[-1].start_offset == 2
    assert {event.cause for event in gone} == {"retention.ms"}
    assert peer.fetch_one("orders", 0).error == ErrorCode.offset_out_of_range
    assert peer.fetch_one("orders", 2).log_start_offset == 2


def test_segments_beyond_retention_bytes_go(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    bench.create_topic("orders", segment_bytes="1048576", retention_bytes="1300000")
    fill(bench, peer, batch, 4)
    bench.wait(6 * MINUTE_MS)
    assert {event.cause for event in bench.of_kind(SegmentDeleted)} == {"retention.bytes"}
    assert bench.partition("orders").log.start_offset == 1, "one more would leave too few"


def test_retention_is_checked_at_the_interval_that_is_configured(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_retention_check_interval_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", retention_bytes="1")
    fill(bench, bench.connect(), batch, 2)
    bench.wait(2000)
    assert bench.of_kind(SegmentDeleted)


def test_a_fetch_that_waits_below_a_removed_segment_is_answered(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_retention_check_interval_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", retention_ms="60000")
    peer = bench.connect()
    fill(bench, peer, batch, 1)
    peer.send_fetch(
        {("orders", 0): 0}, min_bytes=10_000_000, max_bytes=20_000_000, max_wait_ms=600_000
    )
    bench.wait(2 * MINUTE_MS)
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == ErrorCode.offset_out_of_range


# Checkpoints


def test_high_watermarks_are_written_down_every_few_seconds(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a", b"b"))
    assert checkpoint(bench, HIGH_WATERMARKS).get(ORDERS) is None
    bench.wait(5000)
    assert checkpoint(bench, HIGH_WATERMARKS)[ORDERS] == 2


def test_recovery_points_and_log_starts_are_written_down_every_minute(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a", b"b", b"c"))
    bench.partition("orders").raise_start_to(2)
    bench.partition("orders").log.sync()
    bench.wait(90_000)
    assert checkpoint(bench, RECOVERY_POINTS)[ORDERS] == 3
    assert checkpoint(bench, LOG_STARTS)[ORDERS] == 2


def test_nothing_is_written_down_before_the_logs_are_loaded(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_initial_task_delay_ms="0")
    bench.create_topic("orders")
    bench.connect().produce("orders", batch(b"a"))
    bench.partition("orders").log.sync()
    bench.wait(90_000)
    before = checkpoint(bench, RECOVERY_POINTS), checkpoint(bench, HIGH_WATERMARKS)
    slow = bench.again(after_crash(bench.files), holds_jobs=True)
    slow.wait(50_000)
    assert (checkpoint(slow, RECOVERY_POINTS), checkpoint(slow, HIGH_WATERMARKS)) == before


def test_no_checkpoint_is_written_or_synced_on_the_loop(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_cleaner_enable="false")
    bench.create_topic("orders")
    bench.connect().produce("orders", batch(b"a", b"b", b"c"))
    bench.partition("orders").raise_start_to(2)
    bench.partition("orders").log.sync()
    bench.holds_jobs = True
    bench.wait(90_000)
    assert bench.jobs

    on_the_loop: set[type] = set()
    while bench.jobs:
        job = bench.jobs[0]
        job.work()
        done = len(bench.files.trace)
        bench.jobs[0] = job._replace(work=lambda: None)
        bench.run_job()
        on_the_loop |= {type(operation) for operation in bench.files.trace[done:]}

    assert on_the_loop == {Renamed}
    assert checkpoint(bench, RECOVERY_POINTS)[ORDERS] == 3
    assert checkpoint(bench, LOG_STARTS)[ORDERS] == 2
    assert checkpoint(bench, HIGH_WATERMARKS)[ORDERS] == 3


def test_a_slow_disk_has_one_checkpoint_of_a_kind_to_write_at_a_time(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_cleaner_enable="false")
    bench.create_topic("orders")
    peer = bench.connect()
    bench.holds_jobs = True
    under_way = []
    for _ in range(4):
        peer.produce("orders", batch(b"a"))
        bench.wait(5000)
        under_way.append(len(bench.jobs))

    assert set(under_way) == {under_way[0]}
    bench.run_jobs()
    assert checkpoint(bench, HIGH_WATERMARKS)[ORDERS] == 1
    bench.wait(5000)
    bench.run_jobs()
    assert checkpoint(bench, HIGH_WATERMARKS)[ORDERS] == 4


def test_a_stop_waits_for_a_checkpoint_under_way_and_writes_the_last_one(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_cleaner_enable="false")
    bench.create_topic("orders")
    peer = bench.connect()
    peer.produce("orders", batch(b"a"))
    bench.holds_jobs = True
    bench.wait(5000)
    peer.produce("orders", batch(b"b"))
    bench.stop()
    while bench.jobs:
        bench.run_job()

    assert checkpoint(bench, HIGH_WATERMARKS)[ORDERS] == 2
    assert checkpoint(bench, RECOVERY_POINTS)[ORDERS] == 2


# The rest


def test_producers_that_were_silent_for_long_are_forgotten(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(
        producer_id_expiration_ms="60000", producer_id_expiration_check_interval_ms="1000"
    )
    bench.create_topic("orders")
    peer = bench.connect()
    peer.produce("orders", batch(producer_id=7, producer_epoch=0, base_sequence=0))
    bench.wait(59_000)
    assert len(bench.partition("orders").log.producers) == 1
    bench.wait(3000)
    assert len(bench.partition("orders").log.producers) == 0


@pytest.mark.usefixtures("peer")
def test_a_node_with_nothing_to_do_keeps_its_deadlines_few(bench: NodeBench) -> None:
    bench.wait(MINUTE_MS)
    before = len(bench.node.rooms.base.runtime.deadlines)
    bench.wait(10 * MINUTE_MS)
    assert len(bench.node.rooms.base.runtime.deadlines) == before
