"""Fetch sessions over a topic of three partitions, as a client holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

import pytest

from tidelog.protocol.fetch import FetchedPartition, FetchResponse

if TYPE_CHECKING:
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer, Wanted

ALL = {("orders", 0): 0, ("orders", 1): 0, ("orders", 2): 0}


@pytest.fixture
def orders(bench: NodeBench) -> UUID:
    return bench.create_topic("orders", 3)


def open_session(peer: Peer, wanted: Wanted | None = None, **how: int) -> int:
    answer = peer.fetch(wanted or ALL, session_epoch=0, max_wait_ms=0, **how)
    assert answer.error == 0
    assert answer.session_id > 0
    return answer.session_id


def partitions(answer: FetchResponse) -> dict[tuple[str | None, int], FetchedPartition]:
    return {
        (topic.name, partition.index): partition
        for topic in answer.topics
        for partition in topic.partitions
    }


def told(answer: FetchResponse) -> list[int]:
    """The partitions an answer speaks of."""
    return [partition.index for topic in answer.topics for partition in topic.partitions]
