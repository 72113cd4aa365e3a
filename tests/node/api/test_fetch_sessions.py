"""Fetch sessions as a client sees them (KIP-227)."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest
from tests.node.session_client import ALL, open_session, orders, partitions, told

from tidelog.model.errors import ErrorCode
from tidelog.protocol.fetch import FetchPartition
from tidelog.replication.messages import LeaderAndIsr

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

# Beginning and ending

__all__ = ["orders"]


@pytest.mark.usefixtures("orders")
def test_a_full_fetch_with_epoch_0_begins_a_session_that_expects_epoch_1(peer: Peer) -> None:
    session = open_session(peer)
    answer = peer.fetch(session_id=session, session_epoch=1, max_wait_ms=0)
    assert (answer.error, answer.session_id, answer.topics) == (0, session, [])
    assert peer.fetch(session_id=session, session_epoch=2, max_wait_ms=0).error == 0


@pytest.mark.usefixtures("orders")
def test_a_full_fetch_tells_of_every_partition_even_if_there_is_nothing_to_tell(
    peer: Peer,
) -> None:
    answer = peer.fetch(ALL, session_epoch=0, max_wait_ms=0)
    assert told(answer) == [0, 1, 2]


@pytest.mark.parametrize(("version", "epoch"), [(6, 0), (7, -1), (12, -1)])
@pytest.mark.usefixtures("orders")
def test_no_session_is_begun_below_version_7_or_with_epoch_minus_1(
    bench: NodeBench, peer: Peer, version: int, epoch: int
) -> None:
    answer = peer.fetch(ALL, version=version, session_epoch=epoch, max_wait_ms=0)
    assert answer.session_id == 0
    assert told(answer) == [0, 1, 2]
    assert len(bench.node.rooms.base.sessions) == 0


def test_an_unknown_session_is_refused(peer: Peer) -> None:
    answer = peer.fetch(session_id=4711, session_epoch=1)
    assert answer.error == ErrorCode.fetch_session_id_not_found
    assert (answer.session_id, answer.topics) == (0, [])


@pytest.mark.parametrize("epoch", [2, 7])
@pytest.mark.usefixtures("orders")
def test_another_epoch_than_expected_is_refused_and_changes_nothing(peer: Peer, epoch: int) -> None:
    session = open_session(peer)
    answer = peer.fetch(session_id=session, session_epoch=epoch, forget=[("orders", 0)])
    assert answer.error == ErrorCode.invalid_fetch_session_epoch
    assert (answer.session_id, answer.topics) == (0, [])
    assert peer.fetch(session_id=session, session_epoch=1, max_wait_ms=0).error == 0


def test_a_session_by_name_is_not_continued_by_id_nor_the_other_way_round(
    orders: UUID, peer: Peer
) -> None:
    by_name = open_session(peer)
    answer = peer.fetch(session_id=by_name, session_epoch=1, version=13)
    assert answer.error == ErrorCode.fetch_session_topic_id_error

    by_id = peer.fetch({(orders, 0): 0}, session_epoch=0, max_wait_ms=0, version=13).session_id
    answer = peer.fetch(session_id=by_id, session_epoch=1, version=12)
    assert answer.error == ErrorCode.fetch_session_topic_id_error


@pytest.mark.usefixtures("orders")
def test_the_epoch_after_the_largest_one_is_1(bench: NodeBench, peer: Peer) -> None:
    session = open_session(peer)
    bench.node.rooms.base.sessions._sessions[session].next_epoch = 2**31 - 1
    last = peer.fetch(session_id=session, session_epoch=2**31 - 1, max_wait_ms=0)
    following = peer.fetch(session_id=session, session_epoch=1, max_wait_ms=0)
    assert (last.error, last.topics) == (0, [])
    assert (following.error, following.topics) == (0, []), "still only news is told"


@pytest.mark.usefixtures("orders")
def test_forgetting_the_last_partition_ends_the_session(bench: NodeBench, peer: Peer) -> None:
    session = open_session(peer)
    answer = peer.fetch(session_id=session, session_epoch=1, forget=list(ALL))
    assert (answer.error, answer.session_id, answer.topics) == (0, 0, [])
    after = peer.fetch(session_id=session, session_epoch=2)
    assert after.error == ErrorCode.fetch_session_id_not_found
    assert all(not bench.partition("orders", index).watchers for index in range(3))


@pytest.mark.parametrize("epoch", [0, -1])
@pytest.mark.usefixtures("orders")
def test_a_full_fetch_closes_the_session_it_names(bench: NodeBench, peer: Peer, epoch: int) -> None:
    session = open_session(peer)
    answer = peer.fetch(ALL, session_id=session, session_epoch=epoch, max_wait_ms=0)
    assert answer.session_id != session
    again = peer.fetch(session_id=session, session_epoch=1)
    assert again.error == ErrorCode.fetch_session_id_not_found
    assert len(bench.node.rooms.base.sessions) == (1 if epoch == 0 else 0)


# What an incremental answer tells


@pytest.mark.usefixtures("orders")
def test_only_partitions_with_news_are_told(peer: Peer, batch: NewBatch) -> None:
    session = open_session(peer)
    peer.produce("orders", batch(b"a"), 1)
    answer = peer.fetch(session_id=session, session_epoch=1)
    assert told(answer) == [1]

    idle = peer.fetch({("orders", 1): 1}, session_id=session, session_epoch=2, max_wait_ms=0)
    assert told(idle) == []


@pytest.mark.usefixtures("orders")
def test_records_that_the_reader_did_not_move_past_are_told_again(
    peer: Peer, batch: NewBatch
) -> None:
    session = open_session(peer)
    peer.produce("orders", batch(b"a"), 1)
    for epoch in (1, 2, 3):
        assert told(peer.fetch(session_id=session, session_epoch=epoch)) == [1]


@pytest.mark.usefixtures("orders")
def test_a_moved_high_watermark_is_news_even_without_records(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    partition = bench.partition("orders", 1)
    partition.apply(LeaderAndIsr(100, 1, 1, (100, 101), (100, 101)), bench.now)
    peer.produce("orders", batch(b"a"), 1, acks=1)
    session = open_session(peer, {**ALL, ("orders", 1): 1})
    partition.apply(LeaderAndIsr(100, 1, 2, (100, 101), (100,)), bench.now)
    answer = peer.fetch(session_id=session, session_epoch=1, max_wait_ms=0)
    assert [(p.index, p.high_watermark) for p in partitions(answer).values()] == [(1, 1)]
    assert told(peer.fetch(session_id=session, session_epoch=2, max_wait_ms=0)) == []


@pytest.mark.usefixtures("orders")
def test_the_cost_of_a_fetch_follows_what_changed(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    session = bench.node.rooms.base.sessions._sessions[open_session(peer)]
    assert len(session.ready) == 0
    peer.produce("orders", batch(b"a"), 2)
    assert [entry.key for entry in session.ready] == [("orders", 2)]


@pytest.mark.usefixtures("orders")
def test_a_moved_log_start_is_news(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    peer.produce("orders", batch(b"a"), 2)
    wanted = {**ALL, ("orders", 2): 1}
    session = open_session(peer, wanted)
    bench.partition("orders", 2).raise_start_to(1)
    answer = peer.fetch(session_id=session, session_epoch=1, max_wait_ms=0)
    assert [(p.index, p.log_start_offset) for p in partitions(answer).values()] == [(2, 1)]
    assert told(peer.fetch(session_id=session, session_epoch=2, max_wait_ms=0)) == []


@pytest.mark.usefixtures("orders")
def test_an_error_is_told_every_time_and_so_is_its_end(bench: NodeBench, peer: Peer) -> None:
    session = open_session(peer)
    partition = bench.partition("orders", 1)
    partition.apply(LeaderAndIsr(-1, 5, 5, (100,), (100,)), bench.now)
    for epoch in (1, 2):
        answer = peer.fetch(session_id=session, session_epoch=epoch, version=10)
        [(key, refused)] = partitions(answer).items()
        assert (key, refused.error) == (("orders", 1), ErrorCode.not_leader_or_follower)
        assert refused.high_watermark == -1

    partition.apply(LeaderAndIsr(100, 6, 6, (100,), (100,)), bench.now)
    recovered = peer.fetch(session_id=session, session_epoch=3, version=10, max_wait_ms=0)
    assert [(p.index, p.error) for p in partitions(recovered).values()] == [(1, 0)]


@pytest.mark.usefixtures("orders")
def test_a_divergence_is_told_every_time(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    peer.produce("orders", batch(b"a"), 0)
    bench.partition("orders", 0).apply(LeaderAndIsr(100, 5, 5, (100,), (100,)), bench.now)
    peer.produce("orders", batch(b"b"), 0)
    session = open_session(peer, {("orders", 0): 2})
    behind = {("orders", 0): FetchPartition(0, 5, 2, 0, -1, 1000)}
    first = peer.fetch(behind, session_id=session, session_epoch=1)
    second = peer.fetch(session_id=session, session_epoch=2)
    for answer in (first, second):
        assert partitions(answer)["orders", 0].diverging_epoch == (0, 1)


@pytest.mark.usefixtures("orders")
def test_the_leader_epoch_given_with_a_partition_holds_for_every_later_fetch(
    bench: NodeBench, peer: Peer
) -> None:
    wanted = {("orders", 0): FetchPartition(0, 0, 0, -1, -1, 1000)}
    session = peer.fetch(wanted, session_epoch=0, max_wait_ms=0).session_id
    bench.partition("orders", 0).apply(LeaderAndIsr(100, 1, 1, (100,), (100,)), bench.now)
    answer = peer.fetch(session_id=session, session_epoch=1)
    assert partitions(answer)["orders", 0].error == ErrorCode.fenced_leader_epoch


@pytest.mark.usefixtures("orders")
def test_partitions_join_and_leave_a_session(peer: Peer, batch: NewBatch) -> None:
    session = open_session(peer, {("orders", 0): 0})
    joined = peer.fetch({("orders", 1): 0}, session_id=session, session_epoch=1, max_wait_ms=0)
    assert told(joined) == [1]
    peer.produce("orders", batch(b"a"), 0)
    peer.produce("orders", batch(b"b"), 1)
    left = peer.fetch(session_id=session, session_epoch=2, forget=[("orders", 0)])
    assert told(left) == [1]


@pytest.mark.usefixtures("orders")
def test_a_partition_that_gave_data_goes_to_the_end_of_the_line(
    peer: Peer, batch: NewBatch
) -> None:
    session = open_session(peer)
    for index in range(3):
        peer.produce("orders", batch(b"x" * 1000), index)
    turns = []
    for epoch in range(1, 7):
        answer = peer.fetch(session_id=session, session_epoch=epoch, max_bytes=1)
        turns += [index for (_, index), p in partitions(answer).items() if p.records]
    assert turns == [0, 1, 2, 0, 1, 2], "nobody starves although one answer holds one batch"


# Waiting


@pytest.mark.usefixtures("orders")
def test_an_incremental_fetch_waits_for_news_and_tells_nothing_else(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    session = open_session(peer)
    peer.send_fetch(session_id=session, session_epoch=1)
    bench.connect().produce("orders", batch(b"a"), 2)
    assert told(peer.fetched()) == [2]


@pytest.mark.usefixtures("orders")
def test_without_news_the_answer_is_empty_and_keeps_the_session(
    bench: NodeBench, peer: Peer
) -> None:
    session = open_session(peer)
    peer.send_fetch(session_id=session, session_epoch=1)
    bench.wait(500)
    answer = peer.fetched()
    assert (answer.session_id, answer.topics) == (session, [])


@pytest.mark.usefixtures("orders")
def test_a_second_fetch_of_a_session_ends_the_waiting_of_the_first(
    bench: NodeBench, peer: Peer
) -> None:
    session = open_session(peer)
    peer.send_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000)
    peer.send_fetch(session_id=session, session_epoch=2, max_wait_ms=60_000)
    assert len(peer.frames) == 1
    bench.wait(60_000)
    assert len(peer.frames) == 2


@pytest.mark.usefixtures("orders")
def test_a_session_survives_its_connection(bench: NodeBench, peer: Peer, batch: NewBatch) -> None:
    session = open_session(peer)
    peer.send_fetch(session_id=session, session_epoch=1, max_wait_ms=60_000)
    peer.leave()
    other = bench.connect()
    other.produce("orders", batch(b"a"), 1)
    assert told(other.fetch(session_id=session, session_epoch=2)) == [1]
