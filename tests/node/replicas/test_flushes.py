"""flush.messages and flush.ms: an answer is given when its records are on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.node.core.effects import Lane
from tidelog.observe.events import LogDirectoryOffline
from tidelog.protocol.apis import ApiKey
from tidelog.simulator.disk.crash import after_crash, data_lost

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


@pytest.fixture
def held(bench: NodeBench) -> NodeBench:
    """A topic that wants every record on disk, on a node whose jobs wait to be run."""
    bench.create_topic("orders", flush_messages="1")
    bench.holds_jobs = True
    return bench


@pytest.mark.parametrize("acks", [-1, 1])
def test_an_answer_waits_for_the_flush_its_topic_asks_for(
    held: NodeBench, peer: Peer, batch: NewBatch, acks: int
) -> None:
    peer.send_produce({("orders", 0): batch(b"a")}, acks=acks)
    held.end_tick()
    assert peer.frames == []
    held.run_jobs()
    [result] = peer.produced().topics[0].partitions
    assert (result.error, result.base_offset) == (0, 0)
    assert held.partition("orders").log.recovery_point == 1


def test_what_was_answered_survives_a_power_cut(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.create_topic("orders", flush_messages="1")
    for value in (b"a", b"b"):
        assert peer.produce("orders", batch(value)).error == 0
    again = bench.again(after_crash(bench.files, data_lost))
    fetched = again.connect().fetch_one("orders", 0)
    assert [record.value for record in records_in(fetched)] == [b"a", b"b"]


def test_the_high_watermark_and_so_consumers_wait_for_the_flush_too(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    consumer = held.connect()
    consumer.send_fetch({("orders", 0): 0}, max_wait_ms=10_000)
    peer.send_produce({("orders", 0): batch(b"a")})
    held.end_tick()
    assert consumer.frames == []
    assert held.partition("orders").high_watermark.offset == 0
    held.run_jobs()
    assert held.partition("orders").high_watermark.offset == 1
    assert consumer.fetched().topics[0].partitions[0].records


def test_an_append_during_a_flush_waits_for_the_next_one(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    other = held.connect()
    peer.send_produce({("orders", 0): batch(b"a")})
    other.send_produce({("orders", 0): batch(b"b")})
    held.run_job()
    assert len(peer.frames) == 1
    assert other.frames == []
    held.run_job()
    assert len(other.frames) == 1


def test_a_repeated_batch_is_not_promised_before_the_first_one_is_on_disk(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    sent = batch(b"a", producer_id=7, producer_epoch=0, base_sequence=0)
    peer.send_produce({("orders", 0): sent})
    again = held.connect()
    again.send_produce({("orders", 0): sent})
    assert again.frames == []
    held.run_jobs()
    [result] = again.produced().topics[0].partitions
    assert (result.error, result.base_offset) == (0, 0)


def test_acks_0_waits_for_nothing_but_is_flushed_all_the_same(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    peer.send_produce({("orders", 0): batch(b"a")}, acks=0)
    assert len(held.jobs) == 1
    held.run_jobs()
    assert peer.frames == []
    assert peer.closed is None
    assert held.partition("orders").log.recovery_point == 1


def test_partitions_that_ask_for_nothing_are_answered_together_with_those_that_do(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    held.holds_jobs = False
    held.create_topic("clicks")
    held.create_topic("payments", flush_messages="1")
    held.holds_jobs = True
    topics = {(name, 0): batch(b"a") for name in ("orders", "clicks", "payments", "nowhere")}
    peer.send_produce(topics)
    assert len([job for job in held.jobs if job.lane is Lane.FLUSHES]) == 2
    assert held.partition("clicks").high_watermark.offset == 1
    held.run_jobs()
    answered = peer.produced().topics
    assert [topic.name for topic in answered] == ["orders", "clicks", "payments", "nowhere"]
    assert [topic.partitions[0].error for topic in answered] == [0, 0, 0, 3]


def test_flush_messages_counts_records_since_the_last_flush(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", flush_messages="3")
    bench.holds_jobs = True
    assert peer.produce("orders", batch(b"a", b"b")).base_offset == 0
    assert [job for job in bench.jobs if job.lane is Lane.FLUSHES] == []
    peer.send_produce({("orders", 0): batch(b"c")})
    assert peer.frames == []
    assert bench.partition("orders").high_watermark.offset == 2
    bench.run_jobs()
    assert peer.produced().topics[0].partitions[0].base_offset == 2
    assert bench.partition("orders").high_watermark.offset == 3


def test_flush_ms_is_honoured_by_the_clock_without_another_append(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", flush_ms="3000")
    assert peer.produce("orders", batch(b"a")).error == 0
    bench.wait(2000)
    assert bench.partition("orders").log.recovery_point == 0
    bench.wait(3000)
    assert bench.partition("orders").log.recovery_point == 1


def test_flush_ms_0_holds_every_answer(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    bench.create_topic("orders", flush_ms="0")
    bench.holds_jobs = True
    peer.send_produce({("orders", 0): batch(b"a")})
    assert peer.frames == []
    bench.run_jobs()
    assert len(peer.frames) == 1


def test_the_setting_can_come_and_go_while_the_node_runs(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    for value, waits in (("1", True), (None, False)):
        bench.holds_jobs = False
        change = {"name": "flush.messages", "config_operation": 0 if value else 1, "value": value}
        resource = {"resource_type": 2, "resource_name": "orders", "configs": [change]}
        peer.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False)
        bench.holds_jobs = True
        peer.send_produce({("orders", 0): batch(b"a")})
        assert (peer.frames == []) is waits
        bench.run_jobs()
        peer.produced()


def test_a_rolled_segment_is_flushed_without_holding_any_answer(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", segment_bytes="1048576", max_message_bytes="2000000")
    assert peer.produce("orders", batch(b"x" * 400_000)).error == 0
    bench.holds_jobs = True
    for _ in range(2):
        assert peer.produce("orders", batch(b"x" * 400_000)).error == 0
    assert bench.partition("orders").log.recovery_point == 0
    bench.holds_jobs = False
    bench.wait(2000)
    assert bench.partition("orders").log.recovery_point == 3


def test_a_failed_flush_is_a_storage_error_and_takes_the_directory_offline(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(log_dirs="/data,/more")
    bench.create_topic("orders", 2, flush_messages="1")
    peer = bench.connect()
    bench.holds_jobs = True
    index = next(
        index for index in (0, 1) if bench.partition("orders", index).log.directory[:5] == "/more"
    )
    peer.send_produce({("orders", index): batch(b"a")})
    bench.run_jobs(error="Input/output error")
    [result] = peer.produced().topics[0].partitions
    assert (result.error, result.base_offset) == (ErrorCode.kafka_storage_error, -1)
    assert bench.partition("orders", index).high_watermark.offset == 0
    assert [event.directory for event in bench.of_kind(LogDirectoryOffline)] == ["/more"]
    assert peer.produce("orders", batch(b"b"), index).error == ErrorCode.kafka_storage_error


def test_a_flush_that_outlives_the_leadership_is_not_answered_with_success(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    peer.send_produce({("orders", 0): batch(b"a")})
    partition = held.partition("orders")
    for epoch in (1, 2):  # away and back
        leader = 100 if epoch == 2 else -1
        partition.apply(
            partition.leadership._replace(leader=leader, leader_epoch=epoch, partition_epoch=epoch),
            held.now,
        )
    held.run_jobs()
    [result] = peer.produced().topics[0].partitions
    assert result.error == ErrorCode.not_leader_or_follower


def test_a_peer_that_left_is_not_answered_after_the_flush(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    peer.send_produce({("orders", 0): batch(b"a")})
    peer.leave()
    held.run_jobs()
    assert peer.frames == []
    assert held.partition("orders").high_watermark.offset == 1


def test_the_buffer_of_a_held_request_is_let_go(
    held: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    peer.send_produce({("orders", 0): batch(b"a")})
    peer.sent.clear()  # refused with BufferError while anybody looks at it
    held.run_jobs()
    assert len(peer.frames) == 1
