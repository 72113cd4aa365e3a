"""Changed requests about transactions: answered, parked or hung up on; the node goes on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import pytest
from tests.known_versions import known_versions
from tests.node.changed_frames import changed
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer
from tests.protocol.kio_messages.entity_messages import encode_request

from tidelog.model.errors import ErrorCode
from tidelog.protocol import codec
from tidelog.protocol.apis import SUPPORTED, ApiKey
from tidelog.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

CHANGES = 120
PRODUCER = {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0}
TOPICS = [{"name": "orders", "partitions": [0]}]
OFFSET = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}
SAMPLES: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.INIT_PRODUCER_ID: {**PRODUCER, "transaction_timeout": 1000, "enable2_pc": False},
    ApiKey.ADD_OFFSETS_TO_TXN: {**PRODUCER, "group_id": "group"},
    ApiKey.END_TXN: {**PRODUCER, "committed": True},
    ApiKey.TXN_OFFSET_COMMIT: {
        **PRODUCER,
        "group_id": "group",
        "topics": [{"name": "orders", "partitions": [OFFSET]}],
    },
    ApiKey.WRITE_TXN_MARKERS: {
        "markers": [
            {
                "producer_id": 0,
                "producer_epoch": 0,
                "transaction_result": True,
                "coordinator_epoch": 0,
                "topics": [{"name": "orders", "partition_indexes": [0]}],
            }
        ]
    },
    ApiKey.LIST_TRANSACTIONS: {"state_filters": ["Empty"], "producer_id_filters": [0]},
    ApiKey.DESCRIBE_TRANSACTIONS: {"transactional_ids": ["tx"]},
}


def versioned(api: ApiKey, version: int) -> Mapping[str, Any]:
    """Samples of requests whose shape depends on the version."""
    if api is not ApiKey.ADD_PARTITIONS_TO_TXN:
        return SAMPLES[api]
    if version < 4:
        old = {f"v3_and_below_{name}": value for name, value in PRODUCER.items()}
        return {**old, "v3_and_below_topics": TOPICS}
    return {"transactions": [{**PRODUCER, "verify_only": False, "topics": TOPICS}]}


def sample(api: ApiKey, version: int, topic_id: UUID) -> bytes:
    """Header and body of a request."""
    if version <= known_versions(api)[-1]:
        return encode_request(api, version, 7, "fuzz", versioned(api, version))
    assert api is ApiKey.TXN_OFFSET_COMMIT
    offset = TxnOffsetCommitRequestPartition(committed_offset=1, committed_metadata="m")
    topic = TxnOffsetCommitRequestTopic(topic_id=topic_id, partitions=[offset])
    commit = TxnOffsetCommitRequest(transactional_id="tx", group_id="group", topics=[topic])
    return codec.encode_request(commit, version, 7, "fuzz")


@pytest.mark.parametrize(
    "api", [*SAMPLES, ApiKey.ADD_PARTITIONS_TO_TXN], ids=lambda api: api.name.lower()
)
def test_the_node_survives_changed_requests(
    new_bench: Callable[..., NodeBench], api: ApiKey
) -> None:
    bench = new_bench(
        transaction_state_log_num_partitions="2",
        transaction_state_log_replication_factor="1",
        offsets_topic_num_partitions="2",
        offsets_topic_replication_factor="1",
    )
    topic_id = bench.create_topic("orders")
    dice = random.Random(int(api))

    def connect() -> Peer:
        client = bench.connect()
        for key_type in (0, 1):
            client.ask(ApiKey.FIND_COORDINATOR, 1, key="tx", key_type=key_type)
        return client

    peer = connect()
    for version in range(SUPPORTED[api].min, SUPPORTED[api].max + 1):
        peer.send(ApiKey.INIT_PRODUCER_ID, 1, transactional_id="tx", transaction_timeout=60_000)
        bench.wait(200)
        peer.frames.clear()
        whole = sample(api, version, topic_id)
        for _ in range(CHANGES):
            peer.send_frame(changed(whole, dice))
            bench.wait(0)
            bench.end_tick()
            if peer.closed is not None or not peer.frames:
                peer = connect()
            peer.frames.clear()
        bench.wait(90_000)
    found = bench.connect().ask(ApiKey.FIND_COORDINATOR, 1, key="tx", key_type=1)
    assert found.error_code == ErrorCode.none
    assert bench.stopped is None
