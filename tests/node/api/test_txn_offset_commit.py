"""TxnOffsetCommit by topic id, as of version 6 (KIP-1319)."""

from __future__ import annotations

from uuid import UUID

import pytest
from tests.node.conftest import NewBench
from tests.node.node_bench import NodeBench
from tests.node.transactional_client import SETTINGS, Client

from tidelog.model.errors import ErrorCode
from tidelog.protocol import codec
from tidelog.protocol.apis import ApiKey
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)

NOBODY_KNOWS = UUID(int=1)


class ClientById(Client):
    """Commits offsets of topics by their ids."""

    def commit(
        self, offsets: dict[UUID | None, dict[int, int]], generation: int = -1, member_id: str = ""
    ) -> dict[UUID | None, dict[int, ErrorCode]]:
        """Commit offsets by topic and partition; what became of each."""
        request = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id="group",
            producer_id=self.producer.producer_id,
            producer_epoch=self.producer.producer_epoch,
            generation_id_or_member_epoch=generation,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    topic_id=topic_id,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=index, committed_offset=offset
                        )
                        for index, offset in of_topic.items()
                    ],
                )
                for topic_id, of_topic in offsets.items()
            ],
        )
        self.peer.send_body(ApiKey.TXN_OFFSET_COMMIT, 6, codec.encode(request, 6))
        self.settle()
        _, answer = codec.decode_response(TxnOffsetCommitResponse, 6, self.peer.answer())
        return {
            topic.topic_id: {each.partition_index: each.error_code for each in topic.partitions}
            for topic in answer.topics
        }


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    return new_bench(**SETTINGS)


@pytest.fixture
def orders(bench: NodeBench) -> UUID:
    return bench.create_topic("orders", partitions=2)


@pytest.fixture
def client(bench: NodeBench, orders: UUID) -> ClientById:
    started = ClientById(bench)
    started.init()
    return started


@pytest.mark.parametrize("commits", [True, False])
def test_offsets_by_topic_id_count_when_their_transaction_commits(
    client: ClientById, orders: UUID, commits: bool
) -> None:
    assert client.commit({orders: {0: 7}}) == {orders: {0: ErrorCode.none}}
    assert client.committed_offset() == -1

    assert client.end(commits, 5).error_code == ErrorCode.none

    assert client.committed_offset() == (7 if commits else -1)


def test_a_topic_id_that_nobody_knows_is_refused_and_the_others_are_committed(
    client: ClientById, orders: UUID
) -> None:
    outcome = client.commit({orders: {0: 7, 2: 7}, NOBODY_KNOWS: {0: 7}, None: {1: 7}})

    assert outcome == {
        orders: {0: ErrorCode.none, 2: ErrorCode.unknown_topic_or_partition},
        NOBODY_KNOWS: {0: ErrorCode.unknown_topic_id},
        None: {1: ErrorCode.unknown_topic_id},
    }
    client.end(True, 5)
    assert client.committed_offset() == 7


def test_a_member_of_a_group_that_is_gone_hears_that_there_is_no_such_group(
    client: ClientById, orders: UUID
) -> None:
    outcome = client.commit({orders: {0: 7}}, generation=4, member_id="gone")

    assert outcome == {orders: {0: ErrorCode.group_id_not_found}}


def test_a_member_in_an_epoch_that_is_over_hears_so(client: ClientById, orders: UUID) -> None:
    joined = client.ask(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        group_id="group",
        member_id="",
        member_epoch=0,
        rebalance_timeout=30_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    assert joined.error_code == ErrorCode.none

    outcome = client.commit(
        {orders: {0: 7}}, generation=joined.member_epoch + 1, member_id=joined.member_id
    )

    assert outcome == {orders: {0: ErrorCode.stale_member_epoch}}
