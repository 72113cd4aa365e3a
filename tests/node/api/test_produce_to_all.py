"""Produce with acks=all among several replicas: what waits, for what, and what it hears."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.node.replicated_bench import Follower, ReplicatedBench

from tidelog.model.errors import ErrorCode
from tidelog.replication.messages import LeaderAndIsr

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch
    from tests.node.peer import Peer


class Orders:
    """Partition 0 of a topic, led by the node, followed by 101."""

    def __init__(self, **configs: str) -> None:
        self.bench = ReplicatedBench({"replica.lag.time.max.ms": "10000"})
        self.bench.start()
        self.bench.register(101)
        topic_id = self.bench.place_topic("orders", [100, 101], **configs)
        self.partition = self.bench.partition("orders")
        self.follower = Follower(self.bench, 101, topic_id)
        self.peer: Peer = self.bench.connect()

    def send(self, batch: bytes, acks: int = -1) -> None:
        self.peer.send_produce({("orders", 0): batch}, acks=acks, version=10)
        self.bench.end_tick()

    def results(self) -> list[tuple[int, int]]:
        """Error and base offset of every answer since the last look."""
        found = []
        while self.peer.frames:
            [topic] = self.peer.produced(10).topics
            found += [(each.error, each.base_offset) for each in topic.partitions]
        return found

    def lead(self, leader: int, epoch: int) -> None:
        """What the metadata would say after an election."""
        now = self.partition.leadership
        changed = now._replace(
            leader=leader, leader_epoch=epoch, partition_epoch=now.partition_epoch + 1
        )
        self.partition.apply(LeaderAndIsr(*changed), self.bench.now)
        self.bench.end_tick()


@pytest.fixture
def orders() -> Orders:
    return Orders(min_insync_replicas="2")


def test_the_answer_waits_until_every_in_sync_replica_has_the_batch(
    orders: Orders, batch: NewBatch
) -> None:
    orders.send(batch())
    orders.follower.fetch(0)
    assert orders.results() == []
    orders.follower.fetch(1)
    assert orders.results() == [(0, 0)]


def test_an_answer_for_the_leader_alone_does_not_wait(orders: Orders, batch: NewBatch) -> None:
    orders.send(batch(), acks=1)
    assert orders.results() == [(0, 0)]
    assert orders.partition.high_watermark.offset == 0


def test_each_batch_is_answered_once_and_in_its_turn(orders: Orders, batch: NewBatch) -> None:
    for _ in range(3):
        orders.send(batch())
    orders.follower.fetch(2)
    assert orders.results() == [(0, 0), (0, 1)]
    orders.follower.fetch(3)
    orders.follower.fetch(3)
    orders.bench.wait(40_000)
    assert orders.results() == [(0, 2)]


def test_a_request_over_two_partitions_is_answered_when_the_slower_one_is_done(
    batch: NewBatch,
) -> None:
    bench = ReplicatedBench({})
    bench.start()
    bench.register(101)
    follower = Follower(bench, 101, bench.place_topic("orders", [100, 101], [100, 101]))
    peer = bench.connect()
    peer.send_produce({("orders", 0): batch(), ("orders", 1): batch()}, acks=-1)
    follower.fetch(1, index=0)
    assert peer.frames == []
    follower.fetch(1, index=1)
    answered = peer.produced().topics
    assert [each.error for topic in answered for each in topic.partitions] == [0, 0]


def test_the_time_of_a_request_runs_out_and_the_batch_stays(
    orders: Orders, batch: NewBatch
) -> None:
    orders.send(batch())
    for _ in range(30):
        orders.bench.wait(999)
        orders.follower.fetch(0)
    assert orders.results() == []
    orders.bench.wait(30)
    assert orders.results() == [(ErrorCode.request_timed_out, -1)]
    assert orders.partition.log.end_offset == 1
    orders.follower.fetch(1)
    assert orders.results() == []


def test_too_few_in_sync_replicas_refuse_before_anything_is_written(
    orders: Orders, batch: NewBatch
) -> None:
    orders.bench.beat(101, want_fence=True)
    orders.send(batch())
    assert orders.results() == [(ErrorCode.not_enough_replicas, -1)]
    assert orders.partition.log.end_offset == 0
    orders.send(batch(), acks=1)
    assert orders.results() == [(0, 0)]


def test_replicas_lost_after_the_append_leave_the_answer_to_its_time(
    orders: Orders, batch: NewBatch
) -> None:
    orders.send(batch())
    orders.bench.beat(101, want_fence=True)
    assert orders.results() == []
    orders.bench.wait(30_000)
    assert orders.results() == [(ErrorCode.request_timed_out, -1)]


def test_a_committed_batch_sent_again_to_too_few_replicas_is_refused(
    orders: Orders, batch: NewBatch
) -> None:
    same = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    orders.send(same)
    orders.follower.fetch(1)
    orders.bench.beat(101, want_fence=True)
    orders.send(same)
    assert orders.results() == [(0, 0), (ErrorCode.not_enough_replicas, -1)]


def test_a_batch_below_the_mark_with_too_few_replicas_left_is_told_as_such(
    orders: Orders, batch: NewBatch
) -> None:
    orders.send(batch())
    orders.follower.fetch(1)
    orders.bench.beat(101, want_fence=True)
    leader = orders.partition.leading
    assert leader is not None
    assert leader.acknowledgement(1) is ErrorCode.not_enough_replicas_after_append


def test_lost_leadership_answers_what_waits(orders: Orders, batch: NewBatch) -> None:
    orders.send(batch())
    orders.lead(101, 1)
    assert orders.results() == [(ErrorCode.not_leader_or_follower, -1)]


def test_regained_leadership_does_not_bring_an_answer_back(orders: Orders, batch: NewBatch) -> None:
    orders.send(batch())
    orders.lead(100, 2)
    assert orders.results() == [(ErrorCode.not_leader_or_follower, -1)]
    orders.follower.leader_epoch = 2
    orders.follower.fetch(1)
    assert orders.partition.high_watermark.offset == 1
    assert orders.results() == []


def test_a_producer_that_loses_its_leader_hears_who_leads_now(
    orders: Orders, batch: NewBatch
) -> None:
    orders.bench.register(102)
    orders.send(batch())
    orders.lead(101, 1)
    [topic] = orders.peer.produced(10).topics
    [result] = topic.partitions
    assert result.current_leader == orders.bench.node.cluster.current_leader(orders.partition.name)


def test_a_deleted_topic_answers_what_waits(orders: Orders, batch: NewBatch) -> None:
    orders.send(batch())
    orders.bench.delete_topic("orders")
    assert orders.results() == [(ErrorCode.not_leader_or_follower, -1)]


def test_a_producer_that_left_is_not_answered(orders: Orders, batch: NewBatch) -> None:
    orders.send(batch())
    orders.peer.leave()
    orders.follower.fetch(1)
    orders.bench.wait(40_000)
    assert orders.peer.frames == []


def test_an_idempotent_batch_sent_again_waits_with_the_first(
    orders: Orders, batch: NewBatch
) -> None:
    same = batch(producer_id=5, producer_epoch=0, base_sequence=0)
    orders.send(same)
    orders.send(same)
    assert orders.results() == []
    orders.follower.fetch(1)
    assert orders.results() == [(0, 0), (0, 0)]
