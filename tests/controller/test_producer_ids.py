"""Blocks of producer ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.controller.producer_ids import ProducerIdBlock
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import ProducerIdsRecord

if TYPE_CHECKING:
    from tests.controller.conftest import Cluster


def allocate(cluster: Cluster, broker_id: int) -> ProducerIdBlock | Refusal:
    epoch = cluster.image.brokers[broker_id].broker_epoch
    return cluster.do(cluster.controller.allocate_producer_ids(broker_id, epoch))


def test_blocks_of_a_thousand_follow_each_other(cluster: Cluster) -> None:
    assert allocate(cluster, 100) == ProducerIdBlock(0, 1000)
    assert allocate(cluster, 101) == ProducerIdBlock(1000, 1000)
    assert allocate(cluster, 100) == ProducerIdBlock(2000, 1000)
    assert cluster.image.next_producer_id == 3000


def test_a_stale_broker_gets_no_block(cluster: Cluster) -> None:
    for broker_id, epoch in ((100, 0), (7, 0)):
        decision = cluster.controller.allocate_producer_ids(broker_id, epoch)

        assert decision.records == ()
        assert isinstance(decision.reply, Refusal)
        assert decision.reply.code is ErrorCode.stale_broker_epoch


def test_ids_are_never_used_twice_not_even_at_the_end(cluster: Cluster) -> None:
    cluster.replay(ProducerIdsRecord(broker_id=100, next_producer_id=2**63 - 1000))

    refusal = allocate(cluster, 100)
    assert isinstance(refusal, Refusal)
    assert refusal.code is ErrorCode.unknown_server_error
