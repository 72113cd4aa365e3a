"""InitProducerId: ids that are never given twice. DescribeProducers: who uses them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import ApiKey
from tidelog.replication.messages import LeaderAndIsr
from tidelog.simulator.disk.crash import after_crash

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

BLOCK = 1000


def init(peer: Peer, version: int = 5, transactional_id: str | None = None) -> Any:
    return peer.ask(
        ApiKey.INIT_PRODUCER_ID,
        version,
        transactional_id=transactional_id,
        transaction_timeout=1000,
        producer_id=-1,
        producer_epoch=-1,
    )


@pytest.mark.parametrize("version", range(6))
def test_a_producer_gets_a_fresh_id_in_epoch_0(peer: Peer, version: int) -> None:
    answer = init(peer, version)
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (0, 0, 0)
    assert init(peer, version).producer_id == 1


def test_the_first_id_waits_for_a_block_of_ids_that_is_on_disk(
    bench: NodeBench, peer: Peer
) -> None:
    bench.holds_jobs = True
    for _ in range(3):
        peer.send(ApiKey.INIT_PRODUCER_ID, 0, transactional_id=None, transaction_timeout=1000)
    assert peer.frames == []
    assert len(bench.jobs) == 1, "one block for all who wait"
    bench.run_jobs()
    given = [
        decode_response(ApiKey.INIT_PRODUCER_ID, 0, peer.answer())[1].producer_id for _ in range(3)
    ]
    assert given == [0, 1, 2]


def test_a_used_up_block_is_followed_by_the_next(bench: NodeBench, peer: Peer) -> None:
    given = [init(peer).producer_id for _ in range(BLOCK + 2)]
    assert given == list(range(BLOCK + 2))
    assert bench.node.cluster.image.next_producer_id == 2 * BLOCK


@pytest.mark.parametrize("clean", [True, False])
def test_after_a_restart_a_new_block_is_begun(bench: NodeBench, peer: Peer, clean: bool) -> None:
    init(peer)
    if clean:
        bench.stop()
        again = bench.again()
    else:
        again = bench.again(after_crash(bench.files))
    assert init(again.connect()).producer_id == BLOCK


def test_a_transactional_id_belongs_to_a_coordinator_and_there_is_none(peer: Peer) -> None:
    refused = init(peer, transactional_id="payments")
    assert refused.error_code == ErrorCode.not_coordinator
    assert (refused.producer_id, refused.producer_epoch) == (-1, -1)
    assert init(peer, transactional_id="").error_code == ErrorCode.invalid_request


# DescribeProducers


def producers(peer: Peer, topic: str, index: int = 0) -> Any:
    answer = peer.ask(
        ApiKey.DESCRIBE_PRODUCERS, 0, topics=[{"name": topic, "partition_indexes": [index]}]
    )
    [[found]] = [each.partitions for each in answer.topics]
    return found


def test_producers_of_a_partition_are_described(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    bench.create_topic("orders")
    assert producers(peer, "orders").active_producers == ()
    peer.produce("orders", batch(b"a", b"b", producer_id=7, producer_epoch=3, base_sequence=0))
    found = producers(peer, "orders")
    [producer] = found.active_producers
    assert (found.error_code, found.error_message) == (0, None)
    assert (producer.producer_id, producer.producer_epoch, producer.last_sequence) == (7, 3, 1)
    assert (producer.coordinator_epoch, producer.current_txn_start_offset) == (-1, -1)
    assert producer.last_timestamp == 1_700_000_000_000


def test_every_replica_describes_its_producers(
    bench: NodeBench, peer: Peer, batch: NewBatch
) -> None:
    """An operator who looks for hanging transactions asks one broker about all its replicas."""
    bench.create_topic("orders")
    peer.produce("orders", batch(b"a", producer_id=7, producer_epoch=3, base_sequence=0))
    bench.partition("orders").apply(LeaderAndIsr(-1, 6, 6, (100,), (100,)), bench.now)
    found = producers(peer, "orders")
    assert (found.error_code, found.active_producers[0].producer_id) == (0, 7)
    assert producers(peer, "orders", 9).error_code == ErrorCode.unknown_topic_or_partition
