"""Fetch: when an answer is given, and what is left of one that is not."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import FetchPartition
from tidelog.replication.messages import LeaderAndIsr

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, RecordsIn
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> UUID:
    """A topic with the records 0 and 1 in one batch and 2 in another."""
    topic_id = bench.create_topic("orders")
    peer.produce("orders", batch(b"a", b"b"))
    peer.produce("orders", batch(b"c"))
    return topic_id


# Waiting


@pytest.mark.usefixtures("orders")
def test_a_fetch_without_data_waits_for_its_time_and_is_then_answered_empty(
    bench: NodeBench, peer: Peer
) -> None:
    peer.send_fetch({("orders", 0): 3}, max_wait_ms=500)
    bench.wait(499)
    assert peer.frames == []
    bench.wait(1)
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == 0
    assert not fetched.records


@pytest.mark.usefixtures("orders")
def test_a_fetch_that_waits_is_answered_when_the_tick_of_an_append_ends(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    peer.send_fetch({("orders", 0): 3})
    producer = bench.connect()
    producer.send_produce({("orders", 0): batch(b"d")})
    producer.send_produce({("orders", 0): batch(b"e")})
    assert peer.frames == [], "many appends cost one look"
    bench.end_tick()
    [fetched] = peer.fetched().topics[0].partitions
    assert [record.value for record in records_in(fetched)] == [b"d", b"e"]


@pytest.mark.usefixtures("orders")
def test_a_fetch_waits_until_there_are_min_bytes(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    size = len(batch(b"x"))
    peer.send_fetch({("orders", 0): 3}, min_bytes=2 * size)
    producer = bench.connect()
    producer.produce("orders", batch(b"x"))
    assert peer.frames == []
    producer.produce("orders", batch(b"y"))
    [fetched] = peer.fetched().topics[0].partitions
    assert [record.value for record in records_in(fetched)] == [b"x", b"y"]


@pytest.mark.usefixtures("orders")
def test_data_that_is_there_counts_towards_min_bytes(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    size = len(batch(b"c"))
    peer.send_fetch({("orders", 0): 2}, min_bytes=size + 1)
    bench.end_tick()
    assert peer.frames == []
    bench.connect().produce("orders", batch(b"d"))
    assert len(peer.frames) == 1


@pytest.mark.usefixtures("orders")
def test_min_bytes_beyond_max_bytes_do_not_keep_a_full_answer_back(
    bench: NodeBench, peer: Peer
) -> None:
    peer.send_fetch({("orders", 0): 0}, min_bytes=1 << 30, max_bytes=50)
    bench.end_tick()
    assert len(peer.frames) == 1


@pytest.mark.usefixtures("orders")
def test_an_error_in_one_partition_is_answered_at_once_with_all_of_them(
    bench: NodeBench, peer: Peer
) -> None:
    answer = peer.fetch({("orders", 0): 3, ("nowhere", 0): 0}, max_wait_ms=500)
    assert [topic.name for topic in answer.topics] == ["orders", "nowhere"]
    assert [topic.partitions[0].error for topic in answer.topics] == [0, 3]


@pytest.mark.usefixtures("orders")
def test_a_consumer_that_heard_of_an_epoch_before_its_leader_waits_for_it(
    bench: NodeBench, peer: Peer, records_in: RecordsIn
) -> None:
    ahead = FetchPartition(0, 1, 0, -1, -1, 1 << 20)
    peer.send_fetch({("orders", 0): ahead}, max_wait_ms=500)
    bench.end_tick()
    assert peer.frames == []
    bench.partition("orders").apply(LeaderAndIsr(100, 1, 1, (100,), (100,)), bench.now)
    bench.end_tick()
    [fetched] = peer.fetched().topics[0].partitions
    assert len(records_in(fetched)) == 3


@pytest.mark.usefixtures("orders")
def test_an_epoch_that_does_not_come_is_unknown_when_the_time_is_up(
    bench: NodeBench, peer: Peer
) -> None:
    ahead = FetchPartition(0, 1, 0, -1, -1, 1 << 20)
    peer.send_fetch({("orders", 0): ahead}, max_wait_ms=500)
    bench.wait(500)
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == ErrorCode.unknown_leader_epoch


def test_a_fetch_of_nothing_is_answered_at_once(peer: Peer) -> None:
    answer = peer.fetch({}, max_wait_ms=500)
    assert (answer.error, answer.topics) == (0, [])


@pytest.mark.usefixtures("orders")
def test_a_fetch_that_waits_learns_that_its_topic_was_deleted(bench: NodeBench, peer: Peer) -> None:
    peer.send_fetch({("orders", 0): 3})
    bench.delete_topic("orders")
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == ErrorCode.unknown_topic_or_partition


@pytest.mark.usefixtures("orders")
def test_a_fetch_that_waits_learns_of_a_new_leader_epoch(bench: NodeBench, peer: Peer) -> None:
    peer.send_fetch({("orders", 0): FetchPartition(0, 0, 3, -1, -1, 1 << 20)})
    bench.partition("orders").apply(LeaderAndIsr(100, 1, 1, (100,), (100,)), bench.now)
    bench.end_tick()
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == ErrorCode.fenced_leader_epoch


@pytest.mark.usefixtures("orders")
def test_a_raised_log_start_reaches_a_fetch_that_waits_below_it(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    peer.send_fetch({("orders", 0): 2}, min_bytes=1000)
    peer_admin = bench.connect()
    peer_admin.ask(
        ApiKey.DELETE_RECORDS,
        2,
        topics=[{"name": "orders", "partitions": [{"partition_index": 0, "offset": 3}]}],
        timeout=1000,
    )
    [fetched] = peer.fetched().topics[0].partitions
    assert fetched.error == ErrorCode.offset_out_of_range


def test_an_offset_in_an_older_segment_is_answered_without_waiting_for_min_bytes(
    bench: NodeBench, peer: Peer, batch: NewBatch, records_in: RecordsIn
) -> None:
    bench.create_topic("orders", segment_bytes="1048576", segment_index_bytes="4096")
    partition = bench.partition("orders")
    peer.produce("orders", batch(b"old"))
    partition.log.roll(bench.now)
    peer.produce("orders", batch(b"new"))
    answer = peer.fetch({("orders", 0): 0}, min_bytes=10_000, max_wait_ms=500)
    [fetched] = answer.topics[0].partitions
    assert [record.value for record in records_in(fetched)] == [b"old"]


# Leaving


def test_a_peer_that_leaves_takes_its_waiting_fetch_along(
    orders: UUID, bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    partition = bench.partition("orders")
    peer.send_fetch({("orders", 0): 3}, max_wait_ms=60_000)
    assert len(partition.watchers) == 1
    peer.leave()
    assert len(partition.watchers) == 0
    bench.connect().produce("orders", batch())
    bench.wait(60_000)
    assert peer.frames == []


@pytest.mark.usefixtures("orders")
def test_answered_fetches_leave_no_watchers_and_no_deadlines_behind(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    producer = bench.connect()
    for offset in range(3, 2000):
        peer.send_fetch({("orders", 0): offset}, max_wait_ms=86_400_000)
        producer.produce("orders", batch())
        assert peer.fetched().error == 0
    assert len(bench.partition("orders").watchers) == 0
    assert len(bench.node._connections[peer.connection].waiting) == 0
    assert len(bench.node.rooms.base.runtime.deadlines) < 1100
    assert bench.node.rooms.parked.woken == []
