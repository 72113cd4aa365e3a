"""Fetch sessions while topics come and go, and when there are too many sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.node.session_client import ALL, open_session, orders, partitions, told

from tidelog.model.errors import ErrorCode

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

# Topics that come and go

__all__ = ["orders"]


def test_a_topic_that_is_created_later_is_read_in_the_same_session(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    session = open_session(peer, {("late", 0): 0})
    unknown = peer.fetch(session_id=session, session_epoch=1)
    assert partitions(unknown)["late", 0].error == ErrorCode.unknown_topic_or_partition

    bench.create_topic("late")
    peer.produce("late", batch(b"a"))
    assert partitions(peer.fetch(session_id=session, session_epoch=2))["late", 0].records


def test_a_topic_id_that_becomes_known_later_is_read_in_the_same_session(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    late_id = UUID(int=77)
    first = peer.fetch({(late_id, 0): 0}, session_epoch=0, version=13)
    assert first.topics[0].partitions[0].error == ErrorCode.unknown_topic_id

    image = bench.node.cluster.image
    image.topics_by_id[late_id] = image.topics_by_name["orders"]
    bench.partition("orders").log.topic_id = late_id
    peer.produce("orders", batch(b"a"))
    second = peer.fetch(session_id=first.session_id, session_epoch=1, version=13)
    assert (second.topics[0].topic_id, second.topics[0].partitions[0].error) == (late_id, 0)
    assert second.topics[0].partitions[0].records


@pytest.mark.usefixtures("orders")
def test_a_topic_deleted_and_created_again_is_read_on_by_name(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    session = open_session(peer)
    before = bench.partition("orders", 0)
    bench.delete_topic("orders")
    gone = peer.fetch(session_id=session, session_epoch=1)
    assert [p.error for p in partitions(gone).values()] == [3, 3, 3]
    assert not before.watchers
    kept = bench.node.rooms.base.sessions._sessions[session].partitions.values()
    assert [entry.hosted for entry in kept] == [None] * 3

    bench.create_topic("orders")
    peer.produce("orders", batch(b"anew"))
    back = peer.fetch(session_id=session, session_epoch=2)
    assert partitions(back)["orders", 0].records
    assert partitions(back)["orders", 1].error == ErrorCode.unknown_topic_or_partition


def test_a_topic_deleted_and_created_again_has_another_id(
    orders: UUID, bench: NodeBench, peer: Peer
) -> None:
    first = peer.fetch({(orders, 0): 0}, session_epoch=0, max_wait_ms=0, version=13)
    bench.delete_topic("orders")
    bench.create_topic("orders")
    answer = peer.fetch(session_id=first.session_id, session_epoch=1, version=13)
    assert answer.topics[0].partitions[0].error == ErrorCode.inconsistent_topic_id
    plain = peer.fetch({(orders, 0): 0}, version=13)
    assert plain.topics[0].partitions[0].error == ErrorCode.unknown_topic_id


# Room


def test_when_the_cache_is_full_a_fetch_is_answered_without_a_session(
    new_bench: NewBench,
) -> None:
    bench = new_bench(max_incremental_fetch_session_cache_slots="1")
    bench.create_topic("orders", 3)
    peer = bench.connect()
    kept = open_session(peer)
    refused = peer.fetch(ALL, session_epoch=0, max_wait_ms=0)
    assert (refused.session_id, told(refused)) == (0, [0, 1, 2])
    assert peer.fetch(session_id=kept, session_epoch=1, max_wait_ms=0).error == 0


def test_an_idle_session_makes_room_and_its_reader_starts_over(new_bench: NewBench) -> None:
    bench = new_bench(max_incremental_fetch_session_cache_slots="1")
    bench.create_topic("orders", 3)
    peer = bench.connect()
    idle = open_session(peer)
    bench.wait(120_001)
    fresh = open_session(peer, {("orders", 0): 0})
    assert fresh != idle
    gone = peer.fetch(session_id=idle, session_epoch=1)
    assert gone.error == ErrorCode.fetch_session_id_not_found


def test_a_fetch_that_waits_in_an_evicted_session_is_answered_with_its_news(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(max_incremental_fetch_session_cache_slots="1")
    bench.create_topic("orders", 3)
    peer = bench.connect()
    session = open_session(peer)
    peer.send_fetch(session_id=session, session_epoch=1, max_wait_ms=600_000)
    bench.wait(120_001)
    open_session(bench.connect())
    bench.connect().produce("orders", batch(b"a"), 1)
    answer = peer.fetched()
    assert (answer.session_id, told(answer)) == (0, [1])
    assert len(bench.partition("orders", 1).watchers) == 1, "that of the new session"
