"""OffsetForLeaderEpoch: where an epoch ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ErrorCode
from tidelog.node.api.offset_for_leader_epoch import CATCHES_UP_MS
from tidelog.protocol.apis import ApiKey
from tidelog.replication.messages import LeaderAndIsr

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def ask(
    peer: Peer,
    leader_epoch: int,
    *,
    current: int = -1,
    topic: str = "orders",
    version: int = 4,
) -> tuple[int, int, int]:
    """Error, epoch and its end."""
    send(peer, leader_epoch, current=current, topic=topic, version=version)
    return told(peer, version)


def send(
    peer: Peer,
    leader_epoch: int,
    *,
    current: int = -1,
    topic: str = "orders",
    version: int = 4,
    replica_id: int = -1,
) -> None:
    asked = {"partition": 0, "current_leader_epoch": current, "leader_epoch": leader_epoch}
    peer.send(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        version,
        replica_id=replica_id,
        topics=[{"topic": topic, "partitions": [asked]}],
    )


def told(peer: Peer, version: int = 4) -> tuple[int, int, int]:
    _, answer = decode_response(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, peer.answer())
    [[found]] = [each.partitions for each in answer.topics]
    return found.error_code, found.leader_epoch, found.end_offset


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> NodeBench:
    """Epoch 2 from offset 0, epoch 5 from offset 1; the log ends at 2."""
    bench.create_topic("orders")
    partition = bench.partition("orders")
    partition.apply(LeaderAndIsr(100, 2, 2, (100,), (100,)), bench.now)
    peer.produce("orders", batch(b"a"))
    partition.apply(LeaderAndIsr(100, 5, 5, (100,), (100,)), bench.now)
    peer.produce("orders", batch(b"b"))
    return bench


@pytest.mark.parametrize("version", [2, 3, 4])
@pytest.mark.usefixtures("orders")
def test_an_epoch_ends_where_the_next_one_begins_and_the_last_at_the_log_end(
    peer: Peer, version: int
) -> None:
    assert ask(peer, 2, version=version) == (0, 2, 1)
    assert ask(peer, 5, version=version) == (0, 5, 2)


@pytest.mark.usefixtures("orders")
def test_an_epoch_nobody_led_here_is_answered_with_the_one_before_it(peer: Peer) -> None:
    assert ask(peer, 4) == (0, 2, 1)
    assert ask(peer, 1) == (0, 1, 0), "below all that is known"


@pytest.mark.usefixtures("orders")
def test_an_epoch_that_is_not_known_is_undefined_and_no_error(peer: Peer) -> None:
    assert ask(peer, 6) == (0, -1, -1)
    assert ask(peer, -1) == (0, -1, -1)


@pytest.mark.usefixtures("orders")
def test_another_current_epoch_is_fenced(peer: Peer) -> None:
    assert ask(peer, 2, current=4) == (ErrorCode.fenced_leader_epoch, -1, -1)
    assert ask(peer, 2, current=5) == (0, 2, 1)


def test_a_consumer_that_heard_of_an_epoch_before_its_leader_waits_for_it(
    orders: NodeBench, peer: Peer
) -> None:
    send(peer, 2, current=6)
    assert peer.frames == []
    orders.partition("orders").apply(LeaderAndIsr(100, 6, 6, (100,), (100,)), orders.now)
    orders.create_topic("invoices")
    assert told(peer) == (0, 2, 1)


def test_a_consumer_does_not_wait_long_for_an_epoch_that_does_not_come(
    orders: NodeBench, peer: Peer
) -> None:
    send(peer, 2, current=6)
    orders.wait(CATCHES_UP_MS - 1)
    assert peer.frames == []
    orders.wait(1)
    assert told(peer) == (ErrorCode.unknown_leader_epoch, -1, -1)


def test_a_follower_is_told_at_once_that_its_epoch_is_not_known(
    orders: NodeBench, peer: Peer
) -> None:
    send(peer, 2, current=6, replica_id=101)
    assert told(peer) == (ErrorCode.unknown_leader_epoch, -1, -1)


def test_only_the_leader_answers(orders: NodeBench, peer: Peer) -> None:
    orders.partition("orders").apply(LeaderAndIsr(-1, 6, 6, (100,), (100,)), orders.now)
    assert ask(peer, 2)[0] == ErrorCode.not_leader_or_follower
    assert ask(peer, 2, topic="nowhere")[0] == ErrorCode.unknown_topic_or_partition
