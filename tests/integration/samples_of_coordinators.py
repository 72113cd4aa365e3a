"""Valid requests for groups and transactions, about ones that do not exist."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tests.integration.raw import Topic

from tidelog.protocol.apis import ApiKey

NO_SUCH_GROUP: Final = "no-such-group"
NO_SUCH_TRANSACTION: Final = "no-such-transaction"
NOBODY: Final = "nobody"
PRODUCER: Final = {"producer_id": 424_242, "producer_epoch": 1}
MEMBER: Final = {"group_id": NO_SUCH_GROUP, "member_id": NOBODY, "group_instance_id": None}
TOO_SHORT_MS: Final = 1
"""No member of a group may have a session as short as this, so nobody joins by accident."""


def _offsets(**topic: Any) -> list[Mapping[str, Any]]:
    offset = {"partition_index": 0, "committed_offset": 1, "committed_metadata": "word"}
    return [{**topic, "partitions": [offset]}]


def _wanted(**topic: Any) -> list[Mapping[str, Any]]:
    return [{**topic, "partition_indexes": [0]}]


def _in_transaction(topic: Topic) -> list[Mapping[str, Any]]:
    return [{"name": topic.name, "partitions": [0]}]


FIELDS: Final[Mapping[ApiKey, Callable[[Topic], Mapping[str, Any]]]] = {
    ApiKey.FIND_COORDINATOR: lambda topic: {
        "key": NO_SUCH_GROUP,
        "key_type": 0,
        "coordinator_keys": [NO_SUCH_GROUP],
    },
    ApiKey.OFFSET_COMMIT: lambda topic: {
        **MEMBER,
        "generation_id_or_member_epoch": 1,
        "topics": _offsets(name=topic.name, topic_id=topic.topic_id),
    },
    ApiKey.OFFSET_FETCH: lambda topic: {
        "group_id": NO_SUCH_GROUP,
        "topics": _wanted(name=topic.name),
        "groups": [
            {
                "group_id": NO_SUCH_GROUP,
                "topics": _wanted(name=topic.name, topic_id=topic.topic_id),
            }
        ],
        "require_stable": True,
    },
    ApiKey.JOIN_GROUP: lambda topic: {
        **MEMBER,
        "session_timeout": TOO_SHORT_MS,
        "rebalance_timeout": TOO_SHORT_MS,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\x00"}],
    },
    ApiKey.SYNC_GROUP: lambda topic: {
        **MEMBER,
        "generation_id": 1,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": [{"member_id": NOBODY, "assignment": b"\x00"}],
    },
    ApiKey.HEARTBEAT: lambda topic: {**MEMBER, "generation_id": 1},
    ApiKey.LEAVE_GROUP: lambda topic: {
        "group_id": NO_SUCH_GROUP,
        "member_id": NOBODY,
        "members": [{"member_id": NOBODY, "group_instance_id": None, "reason": "over"}],
    },
    ApiKey.DESCRIBE_GROUPS: lambda topic: {"groups": [NO_SUCH_GROUP]},
    ApiKey.LIST_GROUPS: lambda topic: {"states_filter": ["Stable"], "types_filter": ["classic"]},
    ApiKey.DELETE_GROUPS: lambda topic: {"groups_names": [NO_SUCH_GROUP]},
    ApiKey.OFFSET_DELETE: lambda topic: {
        "group_id": NO_SUCH_GROUP,
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0}]}],
    },
    ApiKey.CONSUMER_GROUP_HEARTBEAT: lambda topic: {
        "group_id": NO_SUCH_GROUP,
        "member_id": NOBODY,
        "member_epoch": 7,
        "rebalance_timeout": TOO_SHORT_MS,
        "subscribed_topic_names": [topic.name],
        "topic_partitions": [{"topic_id": topic.topic_id, "partitions": [0]}],
    },
    ApiKey.CONSUMER_GROUP_DESCRIBE: lambda topic: {"group_ids": [NO_SUCH_GROUP]},
    ApiKey.ADD_PARTITIONS_TO_TXN: lambda topic: {
        "v3_and_below_transactional_id": NO_SUCH_TRANSACTION,
        "v3_and_below_producer_id": PRODUCER["producer_id"],
        "v3_and_below_producer_epoch": PRODUCER["producer_epoch"],
        "v3_and_below_topics": _in_transaction(topic),
        "transactions": [
            {
                "transactional_id": NO_SUCH_TRANSACTION,
                **PRODUCER,
                "verify_only": False,
                "topics": _in_transaction(topic),
            }
        ],
    },
    ApiKey.ADD_OFFSETS_TO_TXN: lambda topic: {
        "transactional_id": NO_SUCH_TRANSACTION,
        **PRODUCER,
        "group_id": NO_SUCH_GROUP,
    },
    ApiKey.TXN_OFFSET_COMMIT: lambda topic: {
        "transactional_id": NO_SUCH_TRANSACTION,
        **PRODUCER,
        **MEMBER,
        "generation_id": 1,
        "topics": _offsets(name=topic.name),
    },
    ApiKey.END_TXN: lambda topic: {
        "transactional_id": NO_SUCH_TRANSACTION,
        **PRODUCER,
        "committed": True,
    },
    ApiKey.WRITE_TXN_MARKERS: lambda topic: {
        "markers": [
            {
                **PRODUCER,
                "transaction_result": False,
                "topics": [{"name": topic.name, "partition_indexes": [99]}],
                "coordinator_epoch": 0,
            }
        ]
    },
    ApiKey.DESCRIBE_TRANSACTIONS: lambda topic: {"transactional_ids": [NO_SUCH_TRANSACTION]},
    ApiKey.LIST_TRANSACTIONS: lambda topic: {
        "state_filters": ["Ongoing"],
        "producer_id_filters": [PRODUCER["producer_id"]],
    },
}
