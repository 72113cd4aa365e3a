"""Fetch by a follower: progress, sessions, divergence, fencing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.node.replicated_bench import Follower, ReplicatedBench

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.codec import decode_response
from tidelog.protocol.messages.delete_records import DeleteRecordsResponse
from tidelog.replication.partition import Partition

if TYPE_CHECKING:
    from uuid import UUID

    from tests.node.conftest import NewBatch, RecordsIn


class Leader:
    """Two partitions led by the node and followed by 101 and 102."""

    def __init__(self, lag_max_ms: int = 10_000) -> None:
        self.bench = ReplicatedBench({"replica.lag.time.max.ms": str(lag_max_ms)})
        self.bench.start()
        for broker_id in (101, 102):
            self.bench.register(broker_id)
        replicas = [100, 101, 102]
        self.topic_id: UUID = self.bench.place_topic("orders", replicas, replicas)
        self.one = Follower(self.bench, 101, self.topic_id)
        self.two = Follower(self.bench, 102, self.topic_id)

    def partition(self, index: int = 0) -> Partition:
        return self.bench.partition("orders", index)

    def produce(self, batch: bytes, index: int = 0) -> None:
        assert self.bench.connect().produce("orders", batch, index, acks=1).error == 0

    def in_sync(self, index: int = 0) -> set[int]:
        leader = self.partition(index).leading
        assert leader is not None
        return set(leader.in_sync.committed)

    def mark(self, index: int = 0) -> int:
        return self.partition(index).high_watermark.offset

    def open_session(self, follower: Follower, *offsets: int) -> int:
        return self.open_session_of(follower, dict(enumerate(offsets)))

    def open_session_of(self, follower: Follower, offsets: dict[int, int]) -> int:
        follower.send(offsets, session_epoch=0, max_wait_ms=0)
        answer = follower.peer.fetched(17)
        assert answer.session_id
        return answer.session_id


@pytest.fixture
def leader() -> Leader:
    return Leader()


# Progress


def test_a_follower_reads_to_the_end_and_a_consumer_to_the_mark(
    leader: Leader, batch: NewBatch, records_in: RecordsIn
) -> None:
    leader.produce(batch(b"a"))
    assert [record.value for record in records_in(leader.one.fetch(0))] == [b"a"]
    consumer = leader.bench.connect()
    assert consumer.fetch_one("orders", 0).records in (None, b"")


def test_the_mark_follows_the_slowest_in_sync_follower(leader: Leader, batch: NewBatch) -> None:
    leader.produce(batch())
    leader.produce(batch())
    leader.one.fetch(2)
    assert leader.mark() == 0
    leader.two.fetch(1)
    assert leader.mark() == 1
    leader.two.fetch(2)
    assert leader.mark() == 2


def test_the_answer_tells_of_the_mark_that_the_fetch_itself_moved(
    leader: Leader, batch: NewBatch
) -> None:
    leader.produce(batch())
    assert leader.one.fetch(1).high_watermark == 0
    assert leader.two.fetch(1).high_watermark == 1


def test_a_second_look_at_a_parked_fetch_is_no_progress(leader: Leader, batch: NewBatch) -> None:
    leader.two.fetch(0)
    leader.one.send({0: 0}, max_wait_ms=500)
    leader.produce(batch())
    assert leader.one.heard()[0].records is not None
    assert leader.mark() == 0


def test_a_parked_fetch_of_a_follower_is_answered_by_an_append_not_by_the_mark(
    leader: Leader, batch: NewBatch
) -> None:
    leader.produce(batch())
    leader.one.send({0: 1}, max_wait_ms=500)
    leader.two.fetch(1)
    assert leader.mark() == 1
    assert leader.one.peer.frames == []
    leader.produce(batch())
    assert leader.one.heard()[0].high_watermark == 1


# Fencing


def test_a_fetch_of_another_epoch_proves_nothing(leader: Leader, batch: NewBatch) -> None:
    leader.produce(batch())
    leader.two.fetch(1)
    leader.one.leader_epoch = 1
    assert leader.one.fetch(1).error == ErrorCode.unknown_leader_epoch
    assert leader.mark() == 0


def test_a_broker_that_holds_no_replica_is_refused(leader: Leader) -> None:
    leader.bench.register(103)
    stranger = Follower(leader.bench, 103, leader.topic_id)
    assert stranger.fetch(0).error == ErrorCode.unknown_leader_epoch
    stranger.leader_epoch = -1
    assert stranger.fetch(0).error == ErrorCode.not_leader_or_follower


def test_an_earlier_incarnation_of_a_follower_is_refused(leader: Leader, batch: NewBatch) -> None:
    before = leader.bench.epochs[101]
    leader.bench.register(101)
    leader.produce(batch())
    refused = leader.one.fetch(1, replica_epoch=before)
    assert refused.error == ErrorCode.not_leader_or_follower
    assert leader.one.fetch(1).error == ErrorCode.none


# Divergence


def test_a_diverging_fetch_is_answered_at_once_and_is_no_progress(
    leader: Leader, batch: NewBatch
) -> None:
    leader.produce(batch())
    leader.two.fetch(1)
    leader.one.send({0: 5}, last_epoch=0, max_wait_ms=500)
    told = leader.one.heard()[0]
    assert (told.error, told.diverging_epoch, told.records) in [
        (0, (0, 1), None),
        (0, (0, 1), b""),
    ]
    assert leader.mark() == 0


def test_an_epoch_the_leader_never_had_is_out_of_range(leader: Leader) -> None:
    assert leader.one.fetch(0, last_epoch=7).error == ErrorCode.offset_out_of_range


def test_an_offset_beyond_the_end_without_an_epoch_is_out_of_range(leader: Leader) -> None:
    assert leader.one.fetch(5).error == ErrorCode.offset_out_of_range


# Sessions


def test_a_session_answers_only_for_partitions_with_news(leader: Leader, batch: NewBatch) -> None:
    session = leader.open_session(leader.one, 0, 0)
    leader.produce(batch(), 1)
    leader.one.send({}, session_id=session, session_epoch=1, max_wait_ms=0)
    assert list(leader.one.heard()) == [1]


def test_the_mark_is_told_in_a_session_although_another_partition_hurries_the_answer(
    leader: Leader, batch: NewBatch
) -> None:
    leader.two.fetch(0, 0)
    session = leader.open_session(leader.one, 0, 0)
    leader.produce(batch(), 0)
    leader.one.send({}, session_id=session, session_epoch=1)
    assert leader.one.heard()[0].records is not None
    leader.two.fetch(1, 0)
    leader.produce(batch(), 1)
    leader.one.send({0: 1}, session_id=session, session_epoch=2)
    told = leader.one.heard()
    assert told[0].high_watermark == 1
    assert told[1].records is not None


def test_a_follower_whose_session_is_used_stays_in_sync_without_being_looked_at(
    leader: Leader,
) -> None:
    sessions = [leader.open_session(each, 0, 0) for each in (leader.one, leader.two)]
    for epoch in range(1, 60):
        for follower, session in zip((leader.one, leader.two), sessions, strict=True):
            follower.send({}, session_id=session, session_epoch=epoch, max_wait_ms=0)
        leader.bench.wait(500)
    assert leader.in_sync() == {100, 101, 102}


@pytest.mark.parametrize("patience_ms", [0, 500])
def test_a_burst_after_a_silence_lets_nobody_go_who_had_everything(
    leader: Leader, batch: NewBatch, patience_ms: int
) -> None:
    """Its first fetch finds the leader ahead, and nobody has looked at it for long."""
    sessions = [(each, leader.open_session(each, 0, 0)) for each in (leader.one, leader.two)]
    for epoch in range(1, 60):
        for follower, session in sessions:
            follower.send({}, session_id=session, session_epoch=epoch, max_wait_ms=patience_ms)
        leader.bench.wait(500)
    leader.produce(batch())
    leader.produce(batch())
    for follower, session in sessions:
        follower.send({0: 1}, session_id=session, session_epoch=60, max_wait_ms=0)
    leader.bench.wait(9_000)
    assert leader.in_sync() == {100, 101, 102}
    leader.bench.wait(6_000)
    assert leader.in_sync() == {100}, "by then they are late"


def test_a_silent_follower_with_everything_stays_until_there_is_more(
    leader: Leader, batch: NewBatch
) -> None:
    leader.one.fetch(0)
    leader.two.fetch(0)
    leader.bench.wait(40_000)
    assert leader.in_sync() == {100, 101, 102}
    leader.two.fetch(0)
    leader.produce(batch())
    leader.two.fetch(1)
    leader.bench.wait(5_000)
    assert leader.in_sync() == {100, 102}
    assert leader.mark() == 1


def test_a_follower_that_fetches_but_never_catches_up_is_let_go(
    leader: Leader, batch: NewBatch
) -> None:
    for _ in range(20):
        leader.produce(batch())
        leader.produce(batch())
        leader.one.fetch(0)
        leader.two.fetch(leader.partition().log.end_offset)
        leader.bench.wait(1_000)
    assert leader.in_sync() == {100, 102}


def test_a_follower_that_was_let_go_joins_again_by_an_idle_session(
    leader: Leader, batch: NewBatch
) -> None:
    session = leader.open_session(leader.one, 0, 0)
    leader.bench.beat(101, want_fence=True)
    assert leader.in_sync() == {100, 102}
    leader.one.send({}, session_id=session, session_epoch=1, max_wait_ms=0)
    assert leader.in_sync() == {100, 102}
    leader.bench.beat(101)
    leader.one.send({}, session_id=session, session_epoch=2, max_wait_ms=0)
    leader.bench.end_tick()
    assert leader.in_sync() == {100, 101, 102}


def test_a_new_epoch_fences_a_partition_that_an_idle_session_does_not_name(
    leader: Leader,
) -> None:
    session = leader.open_session(leader.one, 0, 0)
    partition = leader.partition()
    now = partition.leadership
    partition.apply(
        now._replace(leader_epoch=3, partition_epoch=now.partition_epoch + 1), leader.bench.now
    )
    leader.one.send({}, session_id=session, session_epoch=1)
    assert {index: told.error for index, told in leader.one.heard().items()} == {
        0: ErrorCode.fenced_leader_epoch
    }


def test_a_new_session_of_a_follower_ends_the_one_it_left_behind(leader: Leader) -> None:
    first = leader.open_session(leader.one, 0, 0)
    other = leader.open_session(leader.two, 0, 0)
    leader.open_session(leader.one, 0, 0)
    assert len(leader.bench.node.rooms.base.sessions) == 2
    leader.one.send({}, session_id=first, session_epoch=1)
    assert leader.one.peer.fetched(17).error == ErrorCode.fetch_session_id_not_found
    leader.two.send({}, session_id=other, session_epoch=1, max_wait_ms=0)
    assert leader.two.heard() == {}


def test_each_fetcher_of_a_follower_has_its_session_and_its_partitions(
    leader: Leader, batch: NewBatch
) -> None:
    fetchers = [leader.one, Follower(leader.bench, 101, leader.topic_id)]
    sessions = [leader.open_session_of(each, {index: 0}) for index, each in enumerate(fetchers)]
    for index, (fetcher, session) in enumerate(zip(fetchers, sessions, strict=True)):
        leader.produce(batch(), index)
        fetcher.send({}, session_id=session, session_epoch=1)
        assert list(fetcher.heard()) == [index]
    leader.two.send({0: 1, 1: 1}, max_wait_ms=0)
    for index, (fetcher, session) in enumerate(zip(fetchers, sessions, strict=True)):
        fetcher.send({index: 1}, session_id=session, session_epoch=2, max_wait_ms=0)
        assert leader.mark(index) == 1


def test_all_fetches_of_a_follower_are_answered_when_it_has_a_new_partition_to_follow(
    leader: Leader,
) -> None:
    fetchers = [leader.one, Follower(leader.bench, 101, leader.topic_id)]
    for index, fetcher in enumerate(fetchers):
        fetcher.send({index: 0}, session_epoch=0, max_wait_ms=5_000)
        assert fetcher.peer.frames == []
    leader.bench.place_topic("more", [100, 101])
    leader.bench.end_tick()
    assert [len(fetcher.peer.frames) for fetcher in fetchers] == [1, 1]


# Deleting records


def test_deleted_records_are_gone_once_every_live_replica_forgot_them(
    leader: Leader, batch: NewBatch
) -> None:
    leader.produce(batch())
    leader.one.fetch(1)
    leader.two.fetch(1)
    admin = leader.bench.connect()
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": -1}]}
    admin.send(ApiKey.DELETE_RECORDS, 2, topics=[asked], timeout=5_000)
    leader.bench.end_tick()
    leader.one.fetch(1, start=1)
    assert admin.frames == []
    leader.two.fetch(1, start=1)
    assert len(admin.frames) == 1


def test_a_replica_that_is_gone_holds_no_deletion_up(leader: Leader, batch: NewBatch) -> None:
    leader.produce(batch())
    leader.one.fetch(1)
    leader.two.fetch(1)
    admin = leader.bench.connect()
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": -1}]}
    admin.send(ApiKey.DELETE_RECORDS, 2, topics=[asked], timeout=5_000)
    leader.one.fetch(1, start=1)
    leader.bench.beat(102, want_fence=True)
    leader.bench.end_tick()
    assert len(admin.frames) == 1


def test_a_deletion_that_a_replica_does_not_follow_runs_out_of_time(
    leader: Leader, batch: NewBatch
) -> None:
    leader.produce(batch())
    leader.one.fetch(1)
    leader.two.fetch(1)
    admin = leader.bench.connect()
    asked = {"name": "orders", "partitions": [{"partition_index": 0, "offset": 1}]}
    admin.send(ApiKey.DELETE_RECORDS, 2, topics=[asked], timeout=5_000)
    leader.bench.wait(4_999)
    assert admin.frames == []
    leader.bench.wait(1)
    assert len(admin.frames) == 1
    leader.one.fetch(1, start=1)
    leader.two.fetch(1, start=1)
    assert len(admin.frames) == 1
    assert leader.partition().log.start_offset == 1


def test_a_deletion_tells_the_low_watermark_of_the_moment_in_which_it_was_done(
    leader: Leader, batch: NewBatch
) -> None:
    leader.bench.beat(102, want_fence=True)
    for index in (0, 1):
        leader.produce(batch(), index)
        leader.one.fetch(1, index)
    admin = leader.bench.connect()
    partitions = [{"partition_index": index, "offset": 1} for index in (0, 1)]
    asked = [{"name": "orders", "partitions": partitions}]
    admin.send(ApiKey.DELETE_RECORDS, 2, topics=asked, timeout=5_000)
    leader.one.fetch(1, 0, start=1)
    leader.bench.beat(102)  # it lives again, and nobody knows where its logs begin
    leader.one.fetch(1, 1, start=1)
    assert admin.frames == []
    leader.two.fetch(1, 1, start=1)
    _, answer = decode_response(DeleteRecordsResponse, 2, admin.answer())
    told = [(each.error_code, each.low_watermark) for each in answer.topics[0].partitions]
    assert told == [(ErrorCode.none, 1), (ErrorCode.none, 1)]
