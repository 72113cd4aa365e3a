"""Reads near the consumer (KIP-392), and reads at a leader that is new."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.node.replicated_bench import Follower, ReplicatedBench

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, RecordsIn

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class Racks:
    """A node in rack a that leads, followers 101 in b and 102 in c, one committed record."""

    def __init__(self, batch: bytes, *, selects: bool = True) -> None:
        selector = {"replica.selector.class": SELECTOR} if selects else {}
        self.bench = ReplicatedBench({"broker.rack": "a", **selector})
        self.bench.start()
        self.bench.register(101, rack="b")
        self.bench.register(102, rack="c")
        topic_id = self.bench.place_topic("orders", [100, 101, 102])
        self.followers = [Follower(self.bench, broker_id, topic_id) for broker_id in (101, 102)]
        self.peer = self.bench.connect()
        assert self.peer.produce("orders", batch, acks=1).error == 0
        for follower in self.followers:
            follower.fetch(1)

    def fetch(self, rack: str, offset: int = 0, **how: Any) -> tuple[int, int, bool]:
        """Error, preferred replica, and whether records came along."""
        told = self.peer.fetch_one("orders", offset, rack_id=rack, **how)
        return told.error, told.preferred_read_replica, bool(told.records)


@pytest.fixture
def racks(batch: NewBatch) -> Racks:
    return Racks(batch())


def test_a_consumer_is_sent_to_the_replica_in_its_rack(racks: Racks) -> None:
    assert racks.fetch("b") == (0, 101, False)
    assert racks.fetch("c") == (0, 102, False)


def test_a_consumer_in_the_rack_of_the_leader_or_in_none_stays(racks: Racks) -> None:
    assert racks.fetch("a") == (0, -1, True)
    assert racks.fetch("z") == (0, -1, True)
    assert racks.fetch("") == (0, -1, True)


def test_a_consumer_is_not_sent_to_a_replica_that_lacks_its_offset(
    racks: Racks, batch: NewBatch
) -> None:
    racks.peer.produce("orders", batch(), acks=1)
    racks.followers[0].fetch(2)
    assert racks.fetch("b", 2) == (0, 101, False)
    assert racks.fetch("c", 2)[1] == -1


def test_a_consumer_is_not_sent_to_a_replica_that_is_gone(racks: Racks) -> None:
    racks.bench.beat(101, want_fence=True)
    assert racks.fetch("b") == (0, -1, True)


def test_without_a_selector_everyone_reads_from_the_leader(batch: NewBatch) -> None:
    racks = Racks(batch(), selects=False)
    assert racks.fetch("b") == (0, -1, True)


def test_a_session_hears_of_the_nearer_replica_as_soon_as_there_is_one(
    racks: Racks, batch: NewBatch
) -> None:
    racks.bench.beat(101, want_fence=True)
    how: dict[str, Any] = {"rack_id": "b", "max_wait_ms": 0}
    opened = racks.peer.fetch({("orders", 0): 1}, session_epoch=0, **how)
    racks.bench.beat(101)
    racks.followers[0].fetch(1)
    racks.bench.end_tick()
    again = racks.peer.fetch({}, session_id=opened.session_id, session_epoch=1, **how)
    [topic] = again.topics
    assert [each.preferred_read_replica for each in topic.partitions] == [101]


# A follower that is read from


def test_a_follower_serves_consumers_below_its_own_mark(
    racks: Racks, batch: NewBatch, records_in: RecordsIn
) -> None:
    partition = racks.bench.partition("orders")
    now = partition.leadership
    racks.peer.produce("orders", batch(), acks=1)
    follows = now._replace(leader=101, leader_epoch=1, partition_epoch=now.partition_epoch + 1)
    partition.apply(follows, racks.bench.now)
    told = racks.peer.fetch_one("orders", 0)
    assert len(records_in(told)) == 1
    assert racks.peer.fetch_one("orders", 3).error == ErrorCode.offset_out_of_range
    assert racks.peer.fetch_one("orders", 0, version=10).error == ErrorCode.not_leader_or_follower


# A leader whose mark is older than its epoch


def new_leader(racks: Racks, batch: bytes) -> None:
    """Another record that is not known to be committed, then a new epoch of the same leader."""
    racks.peer.produce("orders", batch, acks=1)
    partition = racks.bench.partition("orders")
    now = partition.leadership
    leads = now._replace(leader_epoch=1, partition_epoch=now.partition_epoch + 1)
    partition.apply(leads, racks.bench.now)
    for follower in racks.followers:
        follower.leader_epoch = 1


def test_a_consumer_ahead_of_a_new_leaders_mark_is_told_to_come_again(
    racks: Racks, batch: NewBatch
) -> None:
    new_leader(racks, batch())
    assert racks.fetch("", 2)[0] == ErrorCode.offset_not_available
    assert racks.fetch("", 2, version=11)[0] == ErrorCode.offset_not_available
    assert racks.fetch("", 0) == (0, -1, True)
    assert racks.fetch("", 1) == (0, -1, False)
    for follower in racks.followers:
        follower.fetch(2)
    assert racks.fetch("", 2) == (0, -1, False)


@pytest.mark.parametrize("version", [10, 12])
def test_a_consumer_ahead_of_a_new_leaders_mark_waits_until_it_rises(
    racks: Racks, batch: NewBatch, version: int
) -> None:
    """Told to come again, librdkafka would wait for half a second."""
    new_leader(racks, batch())
    racks.peer.send_fetch({("orders", 0): 2}, max_wait_ms=500, version=version)
    racks.bench.wait(100)
    assert racks.peer.frames == []
    racks.bench.connect().send_produce({("orders", 0): batch()}, acks=1)
    for follower in racks.followers:
        follower.fetch(3)
    racks.bench.end_tick()
    [told] = racks.peer.fetched(version).topics[0].partitions
    assert (told.error, bool(told.records)) == (0, True)


def test_a_consumer_ahead_of_a_mark_that_does_not_rise_is_told_when_its_time_is_up(
    racks: Racks, batch: NewBatch
) -> None:
    new_leader(racks, batch())
    racks.peer.send_fetch({("orders", 0): 2}, max_wait_ms=500)
    racks.bench.wait(499)
    assert racks.peer.frames == []
    racks.bench.wait(1)
    [told] = racks.peer.fetched().topics[0].partitions
    assert told.error == ErrorCode.offset_not_available


def test_older_consumers_ahead_of_a_new_leaders_mark_get_nothing_and_no_error(
    racks: Racks, batch: NewBatch
) -> None:
    new_leader(racks, batch())
    assert racks.fetch("", 2, version=10) == (0, -1, False)


def list_offset(racks: Racks, timestamp: int, version: int = 8, replica_id: int = -1) -> Any:
    asked = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": timestamp}
    answer = racks.bench.connect().ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=replica_id,
        isolation_level=0,
        topics=[{"name": "orders", "partitions": [asked]}],
    )
    [told] = answer.topics[0].partitions
    return told.offset if told.error_code is ErrorCode.none else told.error_code


def test_a_new_leader_tells_no_end_that_might_step_back(racks: Racks, batch: NewBatch) -> None:
    new_leader(racks, batch())
    assert list_offset(racks, -1) is ErrorCode.offset_not_available
    assert list_offset(racks, -1, version=4) is ErrorCode.leader_not_available
    assert list_offset(racks, -2) == 0
    assert list_offset(racks, -1, replica_id=101) == 2
    for follower in racks.followers:
        follower.fetch(2)
    assert list_offset(racks, -1) == 2
