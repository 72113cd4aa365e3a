"""A valid request of every API about groups: none of them has to wait for anybody."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.integration.raw import Topic

from tidelog.protocol.apis import ApiKey

GROUP = "no-such-group"
WHO = {"group_id": GROUP, "member_id": "nobody"}

GROUP_FIELDS: Mapping[ApiKey, Callable[[Topic], Mapping[str, Any]]] = {
    ApiKey.OFFSET_COMMIT: lambda topic: {
        **WHO,
        "generation_id_or_member_epoch": 1,
        "topics": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {"partition_index": 0, "committed_offset": 1, "committed_metadata": "note"}
                ],
            }
        ],
    },
    ApiKey.OFFSET_FETCH: lambda topic: {
        "group_id": GROUP,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
        "groups": [
            {
                "group_id": GROUP,
                "member_id": None,
                "member_epoch": -1,
                "topics": [{"partition_indexes": [0]}],
            }
        ],
    },
    ApiKey.FIND_COORDINATOR: lambda topic: {
        "key": GROUP,
        "key_type": 0,
        "coordinator_keys": [GROUP],
    },
    ApiKey.JOIN_GROUP: lambda topic: {
        **WHO,
        "session_timeout": 10_000,
        "rebalance_timeout": 1000,
        "protocol_type": "consumer",
        "protocols": [],
    },
    ApiKey.HEARTBEAT: lambda topic: {**WHO, "generation_id": 1},
    ApiKey.LEAVE_GROUP: lambda topic: {**WHO, "members": [{"member_id": "nobody"}]},
    ApiKey.SYNC_GROUP: lambda topic: {**WHO, "generation_id": 1, "assignments": []},
    ApiKey.DESCRIBE_GROUPS: lambda topic: {"groups": [GROUP]},
    ApiKey.LIST_GROUPS: lambda topic: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    ApiKey.DELETE_GROUPS: lambda topic: {"groups_names": [GROUP]},
    ApiKey.OFFSET_DELETE: lambda topic: {
        "group_id": GROUP,
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    },
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda topic: {
        **WHO,
        "member_epoch": 1,
        "rebalance_timeout": 1000,
        "subscribed_topic_names": [topic.name],
        "subscribed_topic_regex": "vic.*",
        "topic_partitions": [{"topic_id": topic.topic_id, "partitions": [0]}],
    },
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda topic: {"group_ids": [GROUP]},
}
