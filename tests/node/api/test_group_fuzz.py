"""Changed requests about groups: answered, parked or hung up on; the node goes on."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.node.changed_frames import changed
from tests.node.node_bench import NodeBench
from tests.node.peer import Peer
from tests.protocol.kio_messages.entity_messages import encode_request

from tidelog.model.errors import ErrorCode
from tidelog.protocol.apis import SUPPORTED, ApiKey

CHANGES = 120
MEMBER = {"member_id": "", "group_instance_id": "instance"}
TOPIC = {"partitions": [{"partition_index": 0, "committed_offset": 1, "committed_metadata": "m"}]}
SAMPLES: Mapping[ApiKey, Mapping[str, Any]] = {
    ApiKey.FIND_COORDINATOR: {"key": "group", "key_type": 0, "coordinator_keys": ["group"]},
    ApiKey.JOIN_GROUP: {
        "group_id": "group",
        "session_timeout": 10_000,
        "rebalance_timeout": 10_000,
        **MEMBER,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"}],
    },
    ApiKey.SYNC_GROUP: {
        "group_id": "group",
        "generation_id": 1,
        **MEMBER,
        "assignments": [{"member_id": "m", "assignment": b"a"}],
    },
    ApiKey.HEARTBEAT: {"group_id": "group", "generation_id": 1, **MEMBER},
    ApiKey.OFFSET_DELETE: {
        "group_id": "group",
        "topics": [{"name": "orders", "partitions": [{"partition_index": 0}]}],
    },
    ApiKey.LIST_GROUPS: {"states_filter": ["Empty"], "types_filter": ["classic"]},
    ApiKey.DESCRIBE_GROUPS: {"groups": ["group"]},
    ApiKey.DELETE_GROUPS: {"groups_names": ["group"]},
    ApiKey.CONSUMER_GROUP_HEARTBEAT: {
        "group_id": "group",
        "member_id": "member",
        "member_epoch": 0,
        "rebalance_timeout": 10_000,
        "subscribed_topic_names": ["orders"],
        "subscribed_topic_regex": "(o|r)+.*",
        "topic_partitions": [],
    },
    ApiKey.CONSUMER_GROUP_DESCRIBE: {"group_ids": ["group"]},
}


def versioned(api: ApiKey, version: int) -> Mapping[str, Any]:
    """Samples of requests whose shape depends on the version."""
    if api is ApiKey.LEAVE_GROUP:
        if version < 3:
            return {"group_id": "group", "member_id": "m"}
        return {"group_id": "group", "members": [MEMBER]}
    if api is ApiKey.OFFSET_COMMIT:
        topic = TOPIC if version >= 10 else {"name": "orders", **TOPIC}
        wish = {"group_id": "group", "generation_id_or_member_epoch": -1, "member_id": ""}
        return {**wish, "topics": [topic]}
    if api is ApiKey.OFFSET_FETCH:
        wanted = {"partition_indexes": [0]} | ({} if version >= 10 else {"name": "orders"})
        group = {"group_id": "group", "topics": [wanted]}
        return {"groups": [group]} if version >= 8 else group
    return SAMPLES[api]


@pytest.mark.parametrize(
    "api",
    [*SAMPLES, ApiKey.LEAVE_GROUP, ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH],
    ids=lambda api: api.name.lower(),
)
def test_the_node_survives_changed_requests(
    new_bench: Callable[..., NodeBench], api: ApiKey
) -> None:
    bench = new_bench(
        offsets_topic_num_partitions="2",
        offsets_topic_replication_factor="1",
        group_initial_rebalance_delay_ms="0",
    )
    bench.create_topic("orders")
    dice = random.Random(int(api))

    def connect() -> Peer:
        client = bench.connect()
        client.ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
        return client

    peer = connect()
    for version in range(SUPPORTED[api].min, SUPPORTED[api].max + 1):
        whole = encode_request(api, version, 7, "fuzz", versioned(api, version))
        for _ in range(CHANGES):
            peer.send_frame(changed(whole, dice))
            bench.end_tick()
            if peer.closed is not None or not peer.frames:
                peer = connect()
            peer.frames.clear()
        bench.wait(20_000)
    found = bench.connect().ask(ApiKey.FIND_COORDINATOR, 1, key="group", key_type=0)
    assert found.error_code == ErrorCode.none
