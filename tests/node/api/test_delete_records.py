"""DeleteRecords: the log forgets its beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.replication.messages import LeaderAndIsr
from tidelog.simulator.disk.disk_operation import FileCreated

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer


def delete(
    peer: Peer, offset: int, *, topic: str = "orders", index: int = 0, version: int = 2
) -> tuple[int, int]:
    """Error and low watermark."""
    answer = peer.ask(
        ApiKey.DELETE_RECORDS,
        version,
        topics=[{"name": topic, "partitions": [{"partition_index": index, "offset": offset}]}],
        timeout=1000,
    )
    [[found]] = [each.partitions for each in answer.topics]
    return found.error_code, found.low_watermark


@pytest.fixture
def orders(bench: NodeBench, peer: Peer, batch: NewBatch) -> NodeBench:
    """Three records."""
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a", b"b", b"c"))
    return bench


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_log_starts_at_the_offset_given(orders: NodeBench, peer: Peer, version: int) -> None:
    assert delete(peer, 2, version=version) == (0, 2)
    assert orders.partition("orders").log.start_offset == 2


@pytest.mark.usefixtures("orders")
def test_minus_1_is_the_high_watermark(peer: Peer) -> None:
    assert delete(peer, -1) == (0, 3)
    assert peer.fetch_one("orders", 3).log_start_offset == 3


@pytest.mark.usefixtures("orders")
def test_the_log_start_never_goes_back(peer: Peer) -> None:
    assert delete(peer, 2) == (0, 2)
    assert delete(peer, 1) == (0, 2)


@pytest.mark.parametrize("offset", [4, -2])
@pytest.mark.usefixtures("orders")
def test_an_offset_beyond_the_high_watermark_is_out_of_range(peer: Peer, offset: int) -> None:
    assert delete(peer, offset) == (ErrorCode.offset_out_of_range, -1)


def test_a_topic_that_is_only_compacted_keeps_its_records(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders", cleanup_policy="compact")
    peer.produce("orders", batch(b"a"))
    assert delete(peer, 1) == (ErrorCode.policy_violation, -1)


def test_internal_topics_keep_their_records(bench: NodeBench, peer: Peer) -> None:
    bench.create_topic("__transaction_state")
    refused = delete(peer, 0, topic="__transaction_state")
    assert refused == (ErrorCode.invalid_topic_exception, -1)


def test_only_the_leader_deletes(orders: NodeBench, peer: Peer) -> None:
    orders.partition("orders").apply(LeaderAndIsr(-1, 6, 6, (100,), (100,)), orders.now)
    assert delete(peer, 1) == (ErrorCode.not_leader_or_follower, -1)
    assert delete(peer, 1, index=7) == (ErrorCode.unknown_topic_or_partition, -1)
    assert delete(peer, 1, topic="nowhere") == (ErrorCode.unknown_topic_or_partition, -1)


def test_what_cannot_be_written_down_is_a_storage_error(orders: NodeBench, peer: Peer) -> None:
    orders.files.fail_when(lambda operation: isinstance(operation, FileCreated))
    assert delete(peer, 2) == (ErrorCode.kafka_storage_error, -1)


def test_a_deleted_beginning_stays_deleted_after_a_restart(orders: NodeBench, peer: Peer) -> None:
    delete(peer, 2)
    orders.stop()
    again = orders.again()
    assert again.connect().fetch_one("orders", 1).error == ErrorCode.offset_out_of_range
