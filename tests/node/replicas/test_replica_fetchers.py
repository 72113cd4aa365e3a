"""Following leaders: what is asked, what is made of the answers, what a fault costs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tests.node.replicated_bench import Asked, ReplicatedBench

from tidelog.model.errors import ErrorCode
from tidelog.observe.replication_events import FetcherStuck
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.fetch import FetchedPartition
from tidelog.records.batch import assign
from tidelog.records.builder import NewRecord, build_batch
from tidelog.replication.partition import Partition

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch

BACK_OFF_MS = 1000


class Following:
    """Three partitions that the node follows, led by 101."""

    def __init__(self, partitions: int = 3, **configs: str) -> None:
        self.bench = ReplicatedBench({"auto.leader.rebalance.enable": "false"})
        self.bench.start()
        for broker_id in (101, 102):
            self.bench.register(broker_id)
        self.place(partitions, **configs)

    def place(self, partitions: int = 3, **configs: str) -> None:
        self.topic_id: UUID = self.bench.place_topic(
            "orders", *[[101, 100, 102]] * partitions, **configs
        )

    def take(self) -> Asked:
        return self.bench.take()

    def partition(self, index: int = 0) -> Partition:
        return self.bench.partition("orders", index)

    def answer(self, asked: Asked, *partitions: FetchedPartition, **how: Any) -> None:
        self.bench.answer_fetch(asked, self.topic_id, *partitions, **how)

    def elect(self, leader: int, index: int = 0) -> None:
        """What the metadata would say after an election."""
        partition = self.partition(index)
        now = partition.leadership
        changed = now._replace(
            leader=leader,
            leader_epoch=now.leader_epoch + 1,
            partition_epoch=now.partition_epoch + 1,
        )
        assert partition.apply(changed, self.bench.now)
        self.bench.node.rooms.replicas.fetchers.role_changed(partition, self.bench.now)
        self.bench.end_tick()


def records(base_offset: int, epoch: int = 0, *values: bytes) -> FetchedPartition:
    """Partition 0 with a batch, and a mark that is still below it."""
    batch = build_batch([NewRecord(b"key", value, 1) for value in values or (b"value",)])
    assign(memoryview(batch), base_offset, epoch)
    return FetchedPartition(0, 0, base_offset, base_offset, 0, records=memoryview(batch))


def nothing(
    index: int = 0, error: int = 0, high_watermark: int = 0, **more: Any
) -> FetchedPartition:
    return FetchedPartition(index, error, high_watermark, high_watermark, 0, **more)


@pytest.fixture
def following() -> Following:
    return Following()


# The session


def test_the_first_fetch_names_every_partition_and_asks_for_a_session(following: Following) -> None:
    asked = following.take()
    assert (asked.fetch.session_id, asked.fetch.session_epoch) == (0, 0)
    assert asked.fetch.replica_id == 100
    assert asked.fetch.replica_epoch == following.bench.node.cluster.broker_epoch
    assert sorted(asked.wanted) == [0, 1, 2]
    assert asked.wanted[0].fetch_offset == 0
    assert asked.wanted[0].current_leader_epoch == 0


def test_one_fetch_is_under_way_at_a_time(following: Following) -> None:
    following.take()
    following.bench.wait(1000)
    assert following.bench.asked == []


def test_later_fetches_name_only_what_changed(following: Following) -> None:
    following.answer(following.take(), *map(nothing, range(3)))
    asked = following.take()
    assert (asked.fetch.session_id, asked.fetch.session_epoch) == (7, 1)
    assert asked.fetch.topics == []
    following.answer(asked, records(0))
    asked = following.take()
    assert asked.fetch.session_epoch == 2
    assert {index: each.fetch_offset for index, each in asked.wanted.items()} == {0: 1}
    assert asked.wanted[0].last_fetched_epoch == 0


def test_without_a_session_every_fetch_names_everything(following: Following) -> None:
    following.answer(following.take(), records(0), session_id=0)
    asked = following.take()
    assert (asked.fetch.session_id, asked.fetch.session_epoch) == (0, 0)
    assert sorted(asked.wanted) == [0, 1, 2]
    assert asked.wanted[0].fetch_offset == 1


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.fetch_session_id_not_found,
        ErrorCode.invalid_fetch_session_epoch,
        ErrorCode.fetch_session_topic_id_error,
    ],
)
def test_a_session_the_leader_does_not_know_is_begun_anew_at_once(
    following: Following, error: ErrorCode
) -> None:
    following.answer(following.take())
    following.answer(following.take(), error=error, session_id=0)
    asked = following.take()
    assert (asked.fetch.session_id, asked.fetch.session_epoch) == (7, 0), "7 is over"
    assert sorted(asked.wanted) == [0, 1, 2]


def test_another_error_of_a_whole_fetch_is_followed_by_a_pause(following: Following) -> None:
    following.answer(following.take(), error=ErrorCode.unknown_server_error, session_id=0)
    following.bench.wait(BACK_OFF_MS - 1)
    assert following.bench.asked == []
    following.bench.wait(1)
    assert sorted(following.take().wanted) == [0, 1, 2]


def test_a_fetch_costs_what_changed_and_not_what_is_followed(following: Following) -> None:
    many = Following(200)
    many.answer(many.take(), *map(nothing, range(200)))
    many.answer(many.take(), records(0))
    assert list(many.take().wanted) == [0]


# Faults of one partition


def test_a_refused_partition_rests_while_the_others_go_on(following: Following) -> None:
    following.answer(following.take(), nothing(1, ErrorCode.kafka_storage_error), records(0))
    asked = following.take()
    assert asked.forgotten == [1]
    assert list(asked.wanted) == [0]
    following.bench.wait(BACK_OFF_MS)
    following.answer(asked)
    asked = following.take()
    assert list(asked.wanted) == [1]
    assert asked.forgotten == []
    [stuck] = following.bench.of_kind(FetcherStuck)
    assert stuck.partition == ("orders", 1)


def test_a_rest_that_ends_with_no_fetch_under_way_is_followed_by_a_fetch() -> None:
    alone = Following(1)
    alone.answer(alone.take(), nothing(0, ErrorCode.not_leader_or_follower))
    asked = alone.take()
    assert asked.forgotten == [0]
    alone.answer(asked, session_id=0)
    assert alone.bench.asked == []
    alone.bench.wait(BACK_OFF_MS)
    assert list(alone.take().wanted) == [0]


def test_damaged_records_are_not_appended_and_asked_for_again(following: Following) -> None:
    sent = records(0)
    assert isinstance(sent.records, memoryview)
    sent.records[-1] ^= 1
    following.answer(following.take(), sent, *map(nothing, (1, 2)))
    assert following.partition().log.end_offset == 0
    assert following.take().forgotten == [0]
    following.bench.wait(BACK_OFF_MS)
    assert following.bench.asked == []


def test_a_fenced_partition_is_asked_for_only_in_a_new_epoch(following: Following) -> None:
    following.answer(following.take(), nothing(0, ErrorCode.fenced_leader_epoch))
    asked = following.take()
    assert asked.forgotten == [0]
    following.bench.wait(10 * BACK_OFF_MS)
    following.answer(asked)
    asked = following.take()
    assert asked.wanted == {}
    following.elect(101)
    following.answer(asked)
    assert following.take().wanted[0].current_leader_epoch == 1


def test_a_diverging_answer_cuts_and_tells_no_mark(following: Following) -> None:
    following.answer(following.take(), records(0))
    following.answer(following.take(), records(1))
    asked = following.take()
    assert following.partition().log.end_offset == 2
    following.answer(asked, nothing(0, high_watermark=2, diverging_epoch=(0, 1)))
    assert following.partition().log.end_offset == 1
    assert following.partition().high_watermark.offset == 1
    assert following.take().wanted[0].fetch_offset == 1


# Offsets out of range


def ask_for_offsets(following: Following) -> tuple[Asked, Asked, Asked]:
    following.answer(following.take(), nothing(0, ErrorCode.offset_out_of_range))
    end, start, fetch = following.bench.asked
    following.bench.asked.clear()
    assert [end.api, start.api, fetch.api] == [
        ApiKey.LIST_OFFSETS,
        ApiKey.LIST_OFFSETS,
        ApiKey.FETCH,
    ]
    assert fetch.forgotten == [0]
    return end, start, fetch


def tell_offset(following: Following, asked: Asked, offset: int, error: int = 0) -> None:
    told = {"partition_index": 0, "error_code": error, "offset": offset, "timestamp": -1}
    following.bench.answer(asked, topics=[{"name": "orders", "partitions": [told]}])


def test_a_follower_out_of_range_asks_ahead_of_its_next_fetch(following: Following) -> None:
    end, start, fetch = ask_for_offsets(following)
    for asked, timestamp in ((end, -1), (start, -4)):
        [topic] = asked.body.topics
        [partition] = topic.partitions
        assert (asked.body.replica_id, partition.timestamp) == (100, timestamp)
        assert partition.current_leader_epoch == 0
    tell_offset(following, end, 20)
    tell_offset(following, start, 10)
    assert following.partition().log.start_offset == 10
    following.answer(fetch)
    assert following.take().wanted[0].fetch_offset == 10


def test_a_follower_beyond_its_leader_cuts_back_to_its_end(following: Following) -> None:
    following.answer(following.take(), records(0))
    following.answer(following.take(), records(1))
    end, start, fetch = ask_for_offsets(following)
    tell_offset(following, end, 1)
    tell_offset(following, start, 0)
    assert following.partition().log.end_offset == 1
    following.answer(fetch)
    assert following.take().wanted[0].fetch_offset == 1


def test_a_leader_that_does_not_tell_its_offsets_is_asked_again_later(
    following: Following,
) -> None:
    end, start, fetch = ask_for_offsets(following)
    tell_offset(following, end, -1, ErrorCode.unknown_leader_epoch)
    tell_offset(following, start, 0)
    following.bench.wait(BACK_OFF_MS)
    following.answer(fetch)
    assert following.take().wanted[0].fetch_offset == 0
    assert len(following.bench.of_kind(FetcherStuck)) == 1


def test_offsets_told_to_an_earlier_epoch_are_not_used(following: Following) -> None:
    end, start, fetch = ask_for_offsets(following)
    following.elect(101)
    tell_offset(following, end, 20)
    tell_offset(following, start, 10)
    assert following.partition().log.start_offset == 0
    following.answer(fetch)
    assert following.take().wanted[0].current_leader_epoch == 1


# Links


def test_after_a_lost_link_everything_is_asked_for_anew(following: Following) -> None:
    following.answer(following.take())
    asked = following.take()
    following.bench.lose_link(asked.link)
    assert following.bench.asked == []
    following.bench.wait(1000)
    asked = following.take()
    assert (asked.fetch.session_id, asked.fetch.session_epoch) == (7, 0)
    assert sorted(asked.wanted) == [0, 1, 2]


def test_a_leader_that_refuses_connections_is_called_again_and_again(following: Following) -> None:
    following.bench.accepts_links = False
    following.bench.lose_link(following.take().link)
    following.bench.wait(10_000)
    following.bench.accepts_links = True
    following.bench.wait(10_000)
    assert sorted(following.take().wanted) == [0, 1, 2]


def test_a_leader_that_started_again_is_not_waited_for_on_the_old_connection(
    following: Following,
) -> None:
    old = following.take()
    node = following.bench.node
    registration = node.cluster.image.brokers[101]
    node.cluster.image.brokers[101] = replace(
        registration, broker_epoch=registration.broker_epoch + 9
    )
    node.rooms.replicas.fetchers.brokers_changed(following.bench.now)
    following.bench.wait(1000)
    assert old.link not in following.bench.open_links
    asked = following.take()
    assert asked.link != old.link
    assert (sorted(asked.wanted), asked.fetch.session_epoch) == ([0, 1, 2], 0)


def test_a_leader_that_is_gone_is_hung_up_on_until_it_is_back(following: Following) -> None:
    old = following.take()
    node = following.bench.node
    registration = node.cluster.image.brokers.pop(101)
    node.rooms.replicas.fetchers.brokers_changed(following.bench.now)
    assert following.bench.asked == []
    following.bench.wait(1000)
    assert following.bench.asked == []
    assert old.link not in following.bench.open_links
    node.cluster.image.brokers[101] = registration
    node.rooms.replicas.fetchers.brokers_changed(following.bench.now)
    following.bench.end_tick()
    assert sorted(following.take().wanted) == [0, 1, 2]


def test_a_leader_of_nothing_more_is_hung_up_on(following: Following) -> None:
    asked = following.take()
    for index in range(3):
        following.elect(102, index)
    assert asked.link not in following.bench.open_links
    following.answer(following.take())
    assert sorted(following.take().wanted) == [1, 2]
    following.bench.wait(1000)
    assert following.bench.asked == []


def test_hanging_up_on_a_leader_is_no_sign_that_it_is_gone(following: Following) -> None:
    departures = following.bench.node.rooms.base.departures
    following.answer(following.take())
    asked = following.take()
    for index in range(3):
        following.elect(102, index)
    assert asked.link not in following.bench.open_links
    assert not departures.is_in_doubt(101)
    following.answer(following.take())
    following.bench.lose_link(following.take().link)
    assert departures.is_in_doubt(102)


# Roles


def test_a_partition_is_fetched_from_the_leader_of_its_epoch_alone(following: Following) -> None:
    first = following.take()
    following.elect(102)
    second = following.take()
    assert second.link != first.link
    assert list(second.wanted) == [0]
    following.answer(first, records(0))
    assert following.partition().log.end_offset == 0
    assert following.take().forgotten == [0]


def test_a_leader_fetches_nothing_for_its_own_partition(following: Following) -> None:
    asked = following.take()
    following.elect(100)
    following.answer(asked, records(0))
    assert following.partition().log.end_offset == 0
    assert following.take().forgotten == [0]


def test_a_partition_without_a_leader_is_not_fetched(following: Following) -> None:
    asked = following.take()
    following.elect(-1)
    following.answer(asked)
    assert following.take().forgotten == [0]


def test_a_topic_created_again_gets_nothing_of_its_namesake(following: Following) -> None:
    asked = following.take()
    before = following.topic_id
    following.bench.delete_topic("orders")
    following.place()
    following.bench.answer_fetch(asked, before, records(0))
    assert following.partition().log.end_offset == 0
    following.bench.wait(1000)
    asked = following.bench.asked[-1]
    assert [topic.topic_id for topic in asked.fetch.topics] == [following.topic_id]
    assert sorted(asked.wanted) == [0, 1, 2]


def test_a_deleted_topic_is_forgotten(following: Following) -> None:
    asked = following.take()
    following.bench.delete_topic("orders")
    assert asked.link not in following.bench.open_links
    following.bench.wait(1000)
    assert following.bench.asked == []


# What else a fetch tells


def test_a_follower_tells_of_records_only_when_they_are_on_disk_as_its_topic_asks() -> None:
    flushed = Following(2, flush_messages="1")
    flushed.bench.holds_jobs = True
    flushed.answer(flushed.take(), records(0))
    assert flushed.partition().log.end_offset == 1
    assert flushed.bench.asked == []
    flushed.bench.run_jobs()
    assert flushed.take().wanted[0].fetch_offset == 1


def test_a_leader_that_steps_down_while_it_flushes_follows_afterwards(batch: NewBatch) -> None:
    flushed = Following(1, flush_messages="1")
    asked = flushed.take()
    flushed.elect(100)
    flushed.bench.asked.clear()
    flushed.bench.holds_jobs = True
    flushed.bench.connect().send_produce({("orders", 0): batch()}, acks=1)
    flushed.elect(102)
    assert [each for each in flushed.bench.asked if each.link != asked.link] == []
    flushed.bench.run_jobs()
    assert flushed.take().wanted[0].fetch_offset == 1


def test_a_raised_log_start_is_taken_over_and_told(following: Following) -> None:
    following.answer(following.take(), records(0))
    asked = following.take()
    following.answer(asked, FetchedPartition(0, 0, 1, 1, 1))
    assert following.partition().log.start_offset == 1
    assert following.take().wanted[0].log_start_offset == 1


def test_the_mark_follows_the_leaders_as_far_as_the_log_goes(following: Following) -> None:
    following.answer(following.take(), records(0))
    following.answer(following.take(), nothing(0, high_watermark=5))
    assert following.partition().high_watermark.offset == 1
