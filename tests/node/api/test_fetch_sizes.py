"""How much a fetch gives: KIP-74 over several partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tidelog.protocol.fetch import FetchPartition, FetchResponse

if TYPE_CHECKING:
    from tests.node.conftest import NewBatch, NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

SIZE = 1000


@pytest.fixture
def filled(bench: NodeBench, peer: Peer, batch: NewBatch) -> Peer:
    """Connected to a node whose topic has four partitions with three batches of 1000 bytes each."""
    bench.create_topic("orders", 4)
    overhead = len(batch(b"x" * 900)) - 900
    for partition in range(4):
        for _ in range(3):
            sent = batch(b"x" * (SIZE - overhead))
            assert len(sent) == SIZE
            assert peer.produce("orders", sent, partition).error == 0
    return peer


def sizes(answer: FetchResponse) -> list[int]:
    """Bytes of records by partition, in the order of the answer."""
    return [
        len(partition.records)
        for topic in answer.topics
        for partition in topic.partitions
        if isinstance(partition.records, memoryview)
    ]


def asked(*offsets: int, max_bytes: int = 1 << 20) -> dict[tuple[str, int], FetchPartition]:
    return {
        ("orders", index): FetchPartition(index, -1, offset, -1, -1, max_bytes)
        for index, offset in enumerate(offsets)
    }


def test_partitions_are_filled_in_the_order_of_the_request(filled: Peer) -> None:
    assert sizes(filled.fetch(asked(0, 0, 0, 0), max_bytes=7 * SIZE)) == [3000, 3000, 1000, 0]


def test_the_answer_may_end_in_the_middle_of_a_batch(filled: Peer) -> None:
    assert sizes(filled.fetch(asked(0, 0), max_bytes=4 * SIZE + 500)) == [3000, 1500]


def test_a_batch_of_which_not_even_the_first_fits_any_more_is_left_out(filled: Peer) -> None:
    assert sizes(filled.fetch(asked(0, 0, 2), max_bytes=3 * SIZE + 999)) == [3000, 0, 0]


def test_the_first_non_empty_partition_gives_a_whole_batch_whatever_the_limits(
    filled: Peer,
) -> None:
    assert sizes(filled.fetch(asked(3, 0, 0), max_bytes=1)) == [0, 1000, 0]
    assert sizes(filled.fetch(asked(0, 0, max_bytes=1))) == [1000, 0]
    assert sizes(filled.fetch(asked(0, 0, max_bytes=0), max_bytes=0)) == [1000, 0]


def test_the_limit_of_a_partition_holds_for_it_alone(filled: Peer) -> None:
    limited = asked(0, 0) | asked(0, max_bytes=SIZE)
    assert sizes(filled.fetch(limited)) == [1000, 3000]


def test_the_broker_has_a_limit_of_its_own(new_bench: NewBench, batch: NewBatch) -> None:
    bench = new_bench(fetch_max_bytes="1500")
    bench.create_topic("orders", 2)
    peer = bench.connect()
    for partition in (0, 1):
        for _ in range(2):
            peer.produce("orders", batch(b"x" * 930), partition)
    [first, second] = sizes(peer.fetch(asked(0, 0), min_bytes=1 << 20))
    assert first == 1500
    assert second == 0


def test_nobody_waits_for_bytes_that_have_no_room_in_the_answer(filled: Peer) -> None:
    answer = filled.fetch(asked(0, 0), max_bytes=3500, min_bytes=3500, max_wait_ms=500)
    assert sizes(answer) == [3000, 0]


def test_a_small_limit_of_one_partition_is_no_reason_not_to_wait(
    bench: NodeBench, filled: Peer
) -> None:
    limited = asked(0, 0, max_bytes=SIZE - 1)
    filled.send_fetch(limited, min_bytes=2 * SIZE, max_wait_ms=500)
    bench.end_tick()
    assert filled.frames == []
    bench.wait(500)
    assert sizes(filled.fetched()) == [1000, 0]


def test_min_bytes_are_those_of_all_partitions_together(filled: Peer) -> None:
    answer = filled.fetch(asked(2, 2, 2), min_bytes=3 * SIZE, max_wait_ms=500)
    assert sizes(answer) == [1000, 1000, 1000]
