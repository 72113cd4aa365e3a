"""ListOffsets: every special timestamp, every version gate, the epoch of the record found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.replication.messages import LeaderAndIsr
from tidelog.simulator.disk.disk_operation import FileRead

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING_UPLOAD = -4, -5, -6
NOTHING = (ErrorCode.none, -1, -1, -1)


def ask(
    peer: Peer,
    timestamp: int,
    *,
    version: int = 11,
    topic: str = "orders",
    index: int = 0,
    epoch: int = -1,
    replica_id: int = -1,
    isolation_level: int = 0,
) -> tuple[int, int, int, int]:
    """Error, offset, timestamp and leader epoch of the answer."""
    answer = peer.ask(
        ApiKey.LIST_OFFSETS,
        version,
        replica_id=replica_id,
        isolation_level=isolation_level,
        topics=[
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": index,
                        "current_leader_epoch": epoch,
                        "timestamp": timestamp,
                    }
                ],
            }
        ],
    )
    [[found]] = [each.partitions for each in answer.topics]
    return found.error_code, found.offset, found.timestamp, getattr(found, "leader_epoch", -1)


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> NodeBench:
    """Epoch 0: offset 0 at 100 and 1 at 300; epoch 5: offset 2 at 200."""
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a", timestamp=100))
    peer.produce("orders", batch(b"b", timestamp=300))
    bench.partition("orders").apply(LeaderAndIsr(100, 5, 5, (100,), (100,)), bench.now)
    peer.produce("orders", batch(b"c", timestamp=200))
    return bench


@pytest.mark.parametrize("version", range(1, 12))
@pytest.mark.usefixtures("orders")
def test_latest_is_the_high_watermark_in_the_current_epoch(peer: Peer, version: int) -> None:
    assert ask(peer, LATEST, version=version) == (0, 3, -1, 5 if version >= 4 else -1)


@pytest.mark.usefixtures("orders")
def test_earliest_is_the_log_start_in_the_epoch_of_its_record(bench: NodeBench, peer: Peer) -> None:
    assert ask(peer, EARLIEST) == ask(peer, EARLIEST_LOCAL) == (0, 0, -1, 0)
    bench.partition("orders").raise_start_to(2)
    assert ask(peer, EARLIEST) == (0, 2, -1, 5)


def test_earliest_has_no_epoch_when_the_log_does_not_know_it(orders: NodeBench, peer: Peer) -> None:
    epochs = orders.partition("orders").log.epochs
    epochs.replace([(5, 2)])
    assert ask(peer, EARLIEST) == (0, 0, -1, -1)
    epochs.clear()
    assert ask(peer, EARLIEST) == (0, 0, -1, -1)


@pytest.mark.usefixtures("orders")
def test_a_timestamp_finds_the_first_record_not_before_it_in_the_epoch_of_its_batch(
    peer: Peer,
) -> None:
    assert ask(peer, 0) == (0, 0, 100, 0)
    assert ask(peer, 100) == (0, 0, 100, 0)
    assert ask(peer, 101) == (0, 1, 300, 0)
    assert ask(peer, 301) == NOTHING


@pytest.mark.usefixtures("orders")
def test_max_timestamp_is_the_record_with_the_greatest_time(peer: Peer) -> None:
    assert ask(peer, MAX_TIMESTAMP, version=7) == (0, 1, 300, 0)


def test_an_empty_log_has_no_max_timestamp_and_ends_at_0(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("orders")
    assert ask(peer, MAX_TIMESTAMP) == NOTHING
    assert ask(peer, 5) == NOTHING
    assert ask(peer, LATEST) == (0, 0, -1, 0)


@pytest.mark.usefixtures("orders")
def test_without_tiered_storage_its_offsets_are_unknown(peer: Peer) -> None:
    assert ask(peer, LATEST_TIERED) == NOTHING
    assert ask(peer, EARLIEST_PENDING_UPLOAD) == NOTHING


@pytest.mark.parametrize(
    ("timestamp", "since"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING_UPLOAD, 11)],
)
@pytest.mark.usefixtures("orders")
def test_a_special_timestamp_is_unsupported_before_its_version(
    peer: Peer, timestamp: int, since: int
) -> None:
    assert ask(peer, timestamp, version=since - 1)[0] == ErrorCode.unsupported_version
    assert ask(peer, timestamp, version=since)[0] == ErrorCode.none


@pytest.mark.usefixtures("orders")
def test_a_negative_timestamp_without_meaning_is_unsupported(peer: Peer) -> None:
    assert ask(peer, -7) == (ErrorCode.unsupported_version, -1, -1, -1)


@pytest.mark.usefixtures("orders")
def test_a_partition_named_twice_is_an_invalid_request_both_times(peer: Peer) -> None:
    partition: dict[str, Any] = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": -1}
    topic = {"name": "orders", "partitions": [partition]}
    answer = peer.ask(
        ApiKey.LIST_OFFSETS, 7, replica_id=-1, isolation_level=0, topics=[topic, topic]
    )
    found = [partition for topic in answer.topics for partition in topic.partitions]
    assert [each.error_code for each in found] == [ErrorCode.invalid_request] * 2


@pytest.mark.usefixtures("orders")
def test_what_is_not_here_is_unknown(peer: Peer) -> None:
    assert ask(peer, LATEST, topic="nowhere")[0] == ErrorCode.unknown_topic_or_partition
    assert ask(peer, LATEST, index=1)[0] == ErrorCode.unknown_topic_or_partition


@pytest.mark.usefixtures("orders")
def test_another_leader_epoch_is_fenced(peer: Peer) -> None:
    assert ask(peer, LATEST, epoch=4)[0] == ErrorCode.fenced_leader_epoch
    assert ask(peer, LATEST, epoch=6)[0] == ErrorCode.unknown_leader_epoch
    assert ask(peer, LATEST, epoch=5)[0] == ErrorCode.none


def test_only_the_leader_answers_but_for_a_debugger(orders: NodeBench, peer: Peer) -> None:
    orders.partition("orders").apply(LeaderAndIsr(-1, 6, 6, (100,), (100,)), orders.now)
    assert ask(peer, LATEST)[0] == ErrorCode.not_leader_or_follower
    assert ask(peer, LATEST, replica_id=-2) == (0, 3, -1, 6)


def test_a_replica_sees_the_end_of_the_log_and_a_client_the_high_watermark(
    orders: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    orders.partition("orders").apply(LeaderAndIsr(100, 5, 6, (100, 101), (100, 101)), orders.now)
    peer.produce("orders", batch(b"d", timestamp=400), acks=1)
    assert ask(peer, LATEST) == (0, 3, -1, 5)
    assert ask(peer, LATEST, replica_id=101) == (0, 4, -1, 5)
    assert ask(peer, 400) == NOTHING, "it is not committed"
    assert ask(peer, 400, replica_id=101) == (0, 3, 400, 5)


def test_read_committed_ends_at_the_last_stable_offset(
    new_bench: NewBench, batch: NewBatch
) -> None:
    bench = new_bench(transaction_partition_verification_enable="false")
    bench.create_topic("orders")
    peer = bench.connect()
    peer.produce("orders", batch(b"a"))
    sent = batch(b"b", producer_id=7, producer_epoch=0, base_sequence=0, transactional=True)
    peer.produce("orders", sent, transactional_id="payments")
    assert ask(peer, LATEST, isolation_level=1)[1] == 1
    assert ask(peer, LATEST, isolation_level=0)[1] == 2


# A new leader whose high watermark lags


@pytest.fixture
def lagging(orders: NodeBench, peer: Peer, batch: NewBatch) -> Peer:
    """A leader of epoch 7, which began at offset 4, with the high watermark 3."""
    partition = orders.partition("orders")
    partition.apply(LeaderAndIsr(100, 6, 6, (100, 101), (100, 101)), orders.now)
    peer.produce("orders", batch(b"d", timestamp=400), acks=1)
    partition.apply(LeaderAndIsr(100, 7, 7, (100, 101), (100, 101)), orders.now)
    return peer


@pytest.mark.parametrize("timestamp", [LATEST, 400, 401])
def test_a_new_leader_gives_away_no_offset_beyond_its_lagging_mark(
    lagging: Peer, timestamp: int
) -> None:
    assert ask(lagging, timestamp, version=5)[0] == ErrorCode.offset_not_available
    assert ask(lagging, timestamp, version=4)[0] == ErrorCode.leader_not_available
    assert ask(lagging, timestamp, replica_id=101)[0] == ErrorCode.none


def test_a_new_leader_still_tells_what_lies_below_its_lagging_mark(lagging: Peer) -> None:
    assert ask(lagging, EARLIEST) == (0, 0, -1, 0)
    assert ask(lagging, 200) == (0, 1, 300, 0)
    assert ask(lagging, MAX_TIMESTAMP)[0] == ErrorCode.offset_not_available


def test_a_log_that_cannot_be_read_is_a_storage_error(orders: NodeBench, peer: Peer) -> None:
    orders.files.fail_when(lambda operation: isinstance(operation, FileRead), "I/O error")
    assert ask(peer, 200)[0] == ErrorCode.kafka_storage_error
