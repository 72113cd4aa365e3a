"""A valid request of every API and version that is served, harmless to everyone else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from tests.integration.group_samples import GROUP_FIELDS
from tests.integration.raw import Topic, batch_of, request
from tests.integration.samples_of_coordinators import FIELDS as OF_COORDINATORS
from tests.integration.samples_of_quorums import FIELDS as OF_QUORUMS

from tidelog.protocol.apis import SUPPORTED, ApiKey, ListenerScope
from tidelog.testing.cluster import Cluster

NO_SUCH_TOPIC = "no-such-topic"
NO_SUCH_BROKER = 424_242
TOPIC_RESOURCE = 2
TIMEOUT_MS = 1000


def listener_of(cluster: Cluster, key: ApiKey) -> str:
    """Where that API is served."""
    if ListenerScope.BROKER in SUPPORTED[key].scope:
        return cluster.bootstrap
    return cluster.local.descriptions[100].controller_listener or ""


def sample(key: ApiKey, version: int, topic: Topic) -> bytes:
    """Header and body; what it changes, if anything, is `topic`."""
    return request(key, version, sample_fields(key, topic))


def sample_fields(key: ApiKey, topic: Topic) -> Mapping[str, Any]:
    """The fields of all versions."""
    return _FIELDS[key](topic)


ANY_ACL: Mapping[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def _acl(topic: Topic) -> Mapping[str, Any]:
    return {
        "resource_type": TOPIC_RESOURCE,
        "resource_name": topic.name,
        "resource_pattern_type": 3,
        "principal": "User:anybody",
        "host": "*",
        "operation": 3,
        "permission_type": 3,
    }


def _topic_resource(topic: Topic, **configs: Any) -> list[Mapping[str, Any]]:
    return [{"resource_type": TOPIC_RESOURCE, "resource_name": topic.name, **configs}]


_FIELDS: Mapping[ApiKey, Callable[[Topic], Mapping[str, Any]]] = {
    **GROUP_FIELDS,
    ApiKey.PRODUCE: lambda topic: {
        "transactional_id": None,
        "acks": -1,
        "timeout": TIMEOUT_MS,
        "topic_data": [
            {
                "name": topic.name,
                "topic_id": topic.topic_id,
                "partition_data": [{"index": 0, "records": bytes(batch_of(b"value"))}],
            }
        ],
    },
    ApiKey.FETCH: lambda topic: {
        "replica_id": -1,
        "max_wait": 0,
        "min_bytes": 0,
        "max_bytes": 1 << 20,
        "topics": [
            {
                "topic": topic.name,
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": -1,
                        "fetch_offset": 0,
                        "last_fetched_epoch": -1,
                        "partition_max_bytes": 1 << 20,
                    }
                ],
            }
        ],
    },
    ApiKey.LIST_OFFSETS: lambda topic: {
        "replica_id": -1,
        "topics": [
            {"name": topic.name, "partitions": [{"partition_index": 0, "timestamp": -1}]},
        ],
    },
    ApiKey.METADATA: lambda topic: {
        "topics": [{"name": topic.name}],
        "allow_auto_topic_creation": False,
    },
    ApiKey.API_VERSIONS: lambda topic: {
        "client_software_name": "raw",
        "client_software_version": "1",
    },
    ApiKey.CREATE_TOPICS: lambda topic: {
        "topics": [
            {
                "name": "another",
                "num_partitions": 1,
                "replication_factor": 1,
                "configs": [{"name": "retention.ms", "value": "1000"}],
            },
            {"name": "placed", "assignments": [{"partition_index": 0, "broker_ids": [100]}]},
        ],
        "timeout": TIMEOUT_MS,
        "validate_only": True,
    },
    ApiKey.DELETE_TOPICS: lambda topic: {
        "topic_names": [NO_SUCH_TOPIC],
        "topics": [{"name": NO_SUCH_TOPIC}],
        "timeout": TIMEOUT_MS,
    },
    ApiKey.DELETE_RECORDS: lambda topic: {
        "topics": [{"name": topic.name, "partitions": [{"partition_index": 0, "offset": 0}]}],
        "timeout": TIMEOUT_MS,
    },
    ApiKey.INIT_PRODUCER_ID: lambda topic: {
        "transactional_id": None,
        "transaction_timeout": TIMEOUT_MS,
    },
    ApiKey.OFFSET_FOR_LEADER_EPOCH: lambda topic: {
        "replica_id": -1,
        "topics": [
            {
                "topic": topic.name,
                "partitions": [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": 0}],
            }
        ],
    },
    ApiKey.SASL_HANDSHAKE: lambda topic: {"mechanism": "PLAIN"},
    ApiKey.SASL_AUTHENTICATE: lambda topic: {"auth_bytes": b"\0anybody\0secret"},
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: lambda topic: {"users": [{"name": "anybody"}]},
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: lambda topic: {
        "deletions": [{"name": "anybody", "mechanism": 1}],
        "upsertions": [],
    },
    ApiKey.DESCRIBE_ACLS: lambda topic: ANY_ACL,
    ApiKey.CREATE_ACLS: lambda topic: {"creations": [_acl(topic)]},
    ApiKey.DELETE_ACLS: lambda topic: {"filters": [ANY_ACL]},
    ApiKey.DESCRIBE_CONFIGS: lambda topic: {
        "resources": _topic_resource(topic, configuration_keys=["retention.ms"]),
        "include_synonyms": True,
    },
    ApiKey.DESCRIBE_CLIENT_QUOTAS: lambda topic: {
        "components": [{"entity_type": "client-id", "match_type": 0, "match": topic.name}],
        "strict": True,
    },
    ApiKey.ALTER_CLIENT_QUOTAS: lambda topic: {
        "entries": [
            {
                "entity": [{"entity_type": "client-id", "entity_name": topic.name}],
                "ops": [{"key": "producer_byte_rate", "value": 1e9, "remove": False}],
            }
        ],
        "validate_only": False,
    },
    ApiKey.ALTER_CONFIGS: lambda topic: {
        "resources": _topic_resource(topic, configs=[{"name": "retention.ms", "value": "10000000"}])
    },
    ApiKey.DESCRIBE_LOG_DIRS: lambda topic: {"topics": [{"topic": topic.name, "partitions": [0]}]},
    ApiKey.CREATE_PARTITIONS: lambda topic: {
        "topics": [{"name": topic.name, "count": 2, "assignments": [{"broker_ids": [100]}]}],
        "timeout": TIMEOUT_MS,
        "validate_only": True,
    },
    ApiKey.INCREMENTAL_ALTER_CONFIGS: lambda topic: {
        "resources": _topic_resource(
            topic, configs=[{"name": "retention.ms", "config_operation": 0, "value": "10000000"}]
        )
    },
    ApiKey.DESCRIBE_QUORUM: lambda topic: {
        "topics": [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0}]}]
    },
    ApiKey.UPDATE_FEATURES: lambda topic: {
        "timeout": TIMEOUT_MS,
        "feature_updates": [{"feature": "no.such.feature", "max_version_level": 1}],
    },
    ApiKey.DESCRIBE_CLUSTER: lambda topic: {"include_cluster_authorized_operations": True},
    ApiKey.DESCRIBE_PRODUCERS: lambda topic: {
        "topics": [{"name": topic.name, "partition_indexes": [0]}]
    },
    ApiKey.LIST_CONFIG_RESOURCES: lambda topic: {"resource_types": [TOPIC_RESOURCE]},
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: lambda topic: {
        "topics": [{"name": topic.name}],
        "response_partition_limit": 10,
        "cursor": {"topic_name": topic.name, "partition_index": 0},
    },
    ApiKey.ELECT_LEADERS: lambda topic: {
        "election_type": 0,
        "topic_partitions": [{"topic": topic.name, "partitions": [0]}],
        "timeout": TIMEOUT_MS,
    },
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: lambda topic: {
        "timeout": TIMEOUT_MS,
        "topics": [
            {"name": NO_SUCH_TOPIC, "partitions": [{"partition_index": 0, "replicas": [100]}]}
        ],
    },
    ApiKey.LIST_PARTITION_REASSIGNMENTS: lambda topic: {
        "timeout": TIMEOUT_MS,
        "topics": [{"name": topic.name, "partition_indexes": [0]}],
    },
    ApiKey.ALTER_PARTITION: lambda topic: {
        "broker_id": NO_SUCH_BROKER,
        "broker_epoch": 1,
        "topics": [
            {
                "topic_id": topic.topic_id,
                "partitions": [
                    {
                        "partition_index": 0,
                        "leader_epoch": 0,
                        "new_isr": [100],
                        "new_isr_with_epochs": [{"broker_id": 100, "broker_epoch": 1}],
                        "leader_recovery_state": 0,
                        "partition_epoch": 0,
                    }
                ],
            }
        ],
    },
    ApiKey.ENVELOPE: lambda topic: {
        "request_data": request(ApiKey.API_VERSIONS, 0, {}),
        "request_principal": b"\x00\x00\x05User\x02a\x00\x00",
        "client_host_address": bytes((127, 0, 0, 1)),
    },
    ApiKey.FETCH_SNAPSHOT: lambda topic: {
        "replica_id": NO_SUCH_BROKER,
        "max_bytes": 1 << 20,
        "topics": [
            {
                "name": "__cluster_metadata",
                "partitions": [
                    {
                        "partition": 0,
                        "current_leader_epoch": 1,
                        "snapshot_id": {"end_offset": 5, "epoch": 1},
                        "position": 0,
                    }
                ],
            }
        ],
    },
    ApiKey.BROKER_REGISTRATION: lambda topic: {
        "broker_id": NO_SUCH_BROKER,
        "cluster_id": "another cluster",
        "incarnation_id": UUID(int=4711),
        "listeners": [
            {"name": "PLAINTEXT", "host": "localhost", "port": 9, "security_protocol": 0}
        ],
        "features": [
            {"name": "metadata.version", "min_supported_version": 7, "max_supported_version": 30}
        ],
        "rack": "a",
        "log_dirs": [UUID(int=4712)],
    },
    ApiKey.BROKER_HEARTBEAT: lambda topic: {
        "broker_id": NO_SUCH_BROKER,
        "broker_epoch": 1,
        "current_metadata_offset": 1,
        "want_fence": False,
        "want_shut_down": False,
        "offline_log_dirs": [UUID(int=4712)],
    },
    ApiKey.UNREGISTER_BROKER: lambda topic: {"broker_id": NO_SUCH_BROKER},
    ApiKey.ALLOCATE_PRODUCER_IDS: lambda topic: {"broker_id": NO_SUCH_BROKER, "broker_epoch": 1},
    **OF_COORDINATORS,
    **OF_QUORUMS,
}
