"""What coordinators write fits into the internal topic, whose own `max.message.bytes` counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from tests.node.transactional_client import SETTINGS, Client
from tests.protocol.kio_messages.entity_messages import decode_response

from tidelog.coordinator.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from tidelog.protocol.apis import ApiKey
from tidelog.records.batch import BatchHeader

if TYPE_CHECKING:
    from tests.node.conftest import NewBench
    from tests.node.node_bench import NodeBench
    from tests.node.peer import Peer

PARTITIONS = 60
TOPIC_CONFIG = 2


def limit(peer: Peer, topic: str, max_message_bytes: int) -> None:
    change = {
        "name": "max.message.bytes",
        "config_operation": 0,
        "value": str(max_message_bytes),
    }
    resource = {"resource_type": TOPIC_CONFIG, "resource_name": topic, "configs": [change]}
    answer = peer.ask(
        ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False
    )
    assert answer.responses[0].error_code == 0


def headers(bench: NodeBench, topic: str) -> Iterator[BatchHeader]:
    for partition in bench.node.replicas:
        if partition.name.topic == topic:
            for segment in partition.log.segments:
                for _, header in segment.headers_from(segment.base_offset):
                    yield header


@pytest.fixture
def bench(new_bench: NewBench) -> NodeBench:
    bench = new_bench(
        **SETTINGS,
        offsets_retention_minutes="1",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="1000",
    )
    bench.create_topic("orders", partitions=PARTITIONS)
    return bench


@pytest.fixture
def peer(bench: NodeBench) -> Peer:
    """A client that has found the coordinator of its group and committed all offsets."""
    peer = bench.connect()
    for _ in range(2):
        found = peer.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
    assert found.error_code == 0
    for partition in range(PARTITIONS):
        assert commit(peer, partition) == 0
    return peer


def commit(peer: Peer, partition: int) -> int:
    wish = {
        "partition_index": partition,
        "committed_offset": 1,
        "committed_leader_epoch": 0,
        "committed_metadata": "",
    }
    answer = peer.ask(
        ApiKey.OFFSET_COMMIT,
        7,
        group_id="group",
        generation_id_or_member_epoch=-1,
        member_id="",
        group_instance_id=None,
        topics=[{"name": "orders", "partitions": [wish]}],
    )
    code: int = answer.topics[0].partitions[0].error_code
    return code


def offsets_of(bench: NodeBench) -> int:
    return sum(
        len(shard.offsets.of("group")) for shard in bench.node.rooms.coordination.groups.active()
    )


def test_a_group_is_deleted_in_batches_that_the_offsets_topic_takes(
    bench: NodeBench, peer: Peer
) -> None:
    limit(peer, OFFSETS_TOPIC, 600)
    before = len(list(headers(bench, OFFSETS_TOPIC)))

    peer.send(ApiKey.DELETE_GROUPS, 1, groups_names=["group"])
    for _ in range(20):
        bench.wait(1)
    deleted: Any = decode_response(ApiKey.DELETE_GROUPS, 1, peer.answer())[1]

    assert [each.error_code for each in deleted.results] == [0]
    assert offsets_of(bench) == 0
    added = list(headers(bench, OFFSETS_TOPIC))[before:]
    assert len(added) > 3
    assert all(header.size <= 600 for header in added)


def test_a_group_goes_at_once_where_the_offsets_topic_takes_more_than_others(
    bench: NodeBench, peer: Peer
) -> None:
    """Of the broker's own limit the coordinator wants to know nothing."""
    limit(peer, OFFSETS_TOPIC, 100_000)
    before = len(list(headers(bench, OFFSETS_TOPIC)))

    deleted = peer.ask(ApiKey.DELETE_GROUPS, 1, groups_names=["group"])

    assert [each.error_code for each in deleted.results] == [0]
    (added,) = list(headers(bench, OFFSETS_TOPIC))[before:]
    assert added.record_count == PARTITIONS + 1


def test_offsets_of_a_deleted_topic_go_in_batches_that_the_offsets_topic_takes(
    bench: NodeBench, peer: Peer
) -> None:
    limit(peer, OFFSETS_TOPIC, 600)
    peer.ask(ApiKey.DELETE_TOPICS, 5, topic_names=["orders"], timeout=1000)
    bench.wait(1000)
    assert offsets_of(bench) == 0


def test_offsets_expire_in_batches_that_the_offsets_topic_takes(
    bench: NodeBench, peer: Peer
) -> None:
    limit(peer, OFFSETS_TOPIC, 600)
    bench.wait(2 * bench.config.offsets_retention_check_interval_ms)
    assert offsets_of(bench) == 0


def test_timed_out_transactions_end_in_batches_that_the_transactions_topic_takes(
    bench: NodeBench,
) -> None:
    clients = [Client(bench, f"a transactional id of some length {n}") for n in range(12)]
    for client in clients:
        client.init(transaction_timeout=1000)
        assert client.add(0) == 0
    limit(clients[0].peer, TRANSACTIONS_TOPIC, 400)

    bench.wait(5000)
    clients[0].settle()

    shards = list(bench.node.rooms.coordination.transactions.active())
    known = [each for shard in shards for each in shard.transactions()]
    assert len(known) == len(clients)
    assert not any(each.is_ongoing for each in known)
