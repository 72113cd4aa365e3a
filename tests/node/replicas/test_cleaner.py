"""The cleaner in a broker: slices of work away from the loop, and what is written down after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.model.ids import TopicPartition
from tidelog.observe.cleaning_events import CleaningFailed, LogCleaned
from tidelog.records.builder import NewRecord, build_batch
from tidelog.records.record import records_of
from tidelog.simulator.disk.disk_operation import FileRead, FileRemoved, Renamed
from tidelog.storage.checkpoint import FIRST_DIRTY, OffsetCheckpoint
from tidelog.storage.compaction import Compaction

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench

ORDERS = TopicPartition("orders", 0)
VALUE = b"x" * 400_000


def fill(bench: NodeBench, keys: bytes) -> None:
    """One large record per key; three of them fill a segment."""
    peer = bench.connect()
    for key in keys:
        batch = build_batch([NewRecord(bytes([key]), VALUE, bench.now.wall_ms)])
        assert peer.produce("orders", batch).error == 0


def keys_in(bench: NodeBench) -> bytes:
    log = bench.partition("orders").log
    found = b""
    for segment in log.segments:
        if segment.size:
            for position, header in segment.headers_from(segment.base_offset):
                batch = segment.file.read(position, header.size)
                found += b"".join(record.key or b"" for record in records_of(batch))
    return found


def test_a_dirty_compacted_log_is_cleaned_and_that_is_written_down(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc")

    bench.wait(5000)

    (cleaned,) = bench.of_kind(LogCleaned)
    assert (cleaned.partition, cleaned.cleaned_to) == (ORDERS, 6)
    assert cleaned.bytes_after < cleaned.bytes_before
    assert keys_in(bench) == b"abc"
    assert OffsetCheckpoint(bench.files, f"/data/{FIRST_DIRTY}").read() == {ORDERS: 6}


def test_nothing_is_written_or_synced_on_the_loop_during_a_pass(new_bench: NewBench) -> None:
    bench = new_bench(
        log_cleaner_backoff_ms="1000", log_flush_offset_checkpoint_interval_ms="600000"
    )
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc")
    bench.wait(1500)
    bench.holds_jobs = True
    bench.wait(1000)
    assert bench.jobs

    on_the_loop: set[type] = set()
    while bench.jobs:
        job = bench.jobs[0]
        before = len(bench.files.trace)
        job.work()
        by_the_job = len(bench.files.trace) - before
        bench.jobs[0] = job._replace(work=lambda: None)
        bench.run_job()
        on_the_loop |= {type(operation) for operation in bench.files.trace[before + by_the_job :]}

    assert bench.of_kind(LogCleaned)
    assert on_the_loop <= {Renamed, FileRemoved, FileRead}
    assert OffsetCheckpoint(bench.files, f"/data/{FIRST_DIRTY}").read() == {ORDERS: 6}


def test_a_process_that_dies_before_a_pass_is_written_down_cleans_again(
    new_bench: NewBench,
) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc")
    bench.wait(1500)
    bench.holds_jobs = True
    bench.wait(1000)
    while not bench.of_kind(LogCleaned):
        bench.run_job()
    assert OffsetCheckpoint(bench.files, f"/data/{FIRST_DIRTY}").read() == {}

    restarted = bench.again()

    assert keys_in(restarted) == b"abc"
    restarted.wait(5000)
    (cleaned,) = restarted.of_kind(LogCleaned)
    assert cleaned.cleaned_to == 6
    assert keys_in(restarted) == b"abc"


def test_a_cleaner_without_a_pause_leaves_time_for_others(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="0")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")

    bench.wait(5)

    fill(bench, b"abababc")
    bench.wait(1000)
    assert bench.of_kind(LogCleaned)


def test_a_topic_that_is_not_compacted_is_left_alone(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576")
    fill(bench, b"abababc")

    bench.wait(5000)

    assert bench.of_kind(LogCleaned) == []
    assert keys_in(bench) == b"abababc"


def test_a_cleaner_that_is_switched_off_cleans_nothing(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000", log_cleaner_enable="false")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc")

    bench.wait(5000)

    assert keys_in(bench) == b"abababc"


def test_a_pass_that_fails_leaves_the_log_as_it_is(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc")
    bench.wait(1500)
    bench.holds_jobs = True
    bench.wait(1000)
    assert bench.jobs

    while bench.jobs:
        is_slice = getattr(bench.jobs[0].work, "__func__", None) is Compaction.run_slice
        bench.run_job("No space left on device" if is_slice else None)

    (failed,) = bench.of_kind(CleaningFailed)
    assert failed.partition == ORDERS
    assert keys_in(bench) == b"abababc"
    assert bench.partition("orders").log.health.offline_reason is None
    assert not [name for name in bench.files.list("/data/orders-0") if name.endswith(".cleaned")]


def test_a_broker_that_stops_does_not_wait_for_a_whole_pass(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000")
    bench.create_topic("orders", segment_bytes="1048576", cleanup_policy="compact")
    fill(bench, b"abababc" * 3)
    bench.wait(1500)
    bench.holds_jobs = True
    bench.wait(1000)
    bench.run_job()

    bench.stop()
    bench.run_jobs()

    assert bench.of_kind(LogCleaned) == []
    assert bench.stopped is not None
    restarted = bench.again()
    assert not [name for name in bench.files.list("/data/orders-0") if name.endswith(".cleaned")]
    assert keys_in(restarted) == b"abababc" * 3


def test_a_segment_that_retention_takes_meanwhile_ends_the_pass_without_a_complaint(
    new_bench: NewBench,
) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000", log_retention_check_interval_ms="500")
    bench.create_topic(
        "orders", segment_bytes="1048576", cleanup_policy="compact,delete", retention_ms="4000"
    )
    fill(bench, b"abababc")
    bench.wait(1500)
    bench.holds_jobs = True
    bench.wait(600)
    assert bench.jobs
    bench.wait(4000)

    bench.holds_jobs = False
    bench.run_jobs()
    bench.wait(5000)

    assert bench.of_kind(CleaningFailed) == []
    assert not [name for name in bench.files.list("/data/orders-0") if name.endswith(".cleaned")]


def test_retention_goes_on_beside_compaction(new_bench: NewBench) -> None:
    bench = new_bench(log_cleaner_backoff_ms="1000", log_retention_check_interval_ms="1000")
    bench.create_topic(
        "orders", segment_bytes="1048576", cleanup_policy="compact,delete", retention_ms="60000"
    )
    fill(bench, b"dabcdabce")
    bench.wait(5000)
    assert keys_in(bench) == b"dabce"

    bench.wait(70_000)
    assert keys_in(bench) == b""
