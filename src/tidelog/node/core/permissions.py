"""Which permission each API needs: every API that is served stands in exactly one of these tables.

Invariant  `ON_CLUSTER` is looked up in one place for each kind of API: where the active controller
           decides, and where the routes of other APIs are made.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from tidelog.protocol.apis import ApiKey
from tidelog.security.acls import AclOperation

_ACTION: Final = AclOperation.CLUSTER_ACTION
_ALTER: Final = AclOperation.ALTER
_DESCRIBE: Final = AclOperation.DESCRIBE

ON_CLUSTER: Final[Mapping[ApiKey, AclOperation]] = MappingProxyType(
    {
        ApiKey.DESCRIBE_ACLS: _DESCRIBE,
        ApiKey.CREATE_ACLS: _ALTER,
        ApiKey.DELETE_ACLS: _ALTER,
        ApiKey.DESCRIBE_LOG_DIRS: _DESCRIBE,
        ApiKey.ELECT_LEADERS: _ALTER,
        ApiKey.DESCRIBE_CLIENT_QUOTAS: AclOperation.DESCRIBE_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS: AclOperation.ALTER_CONFIGS,
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _DESCRIBE,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _ALTER,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _ALTER,
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _DESCRIBE,
        ApiKey.VOTE: _ACTION,
        ApiKey.BEGIN_QUORUM_EPOCH: _ACTION,
        ApiKey.END_QUORUM_EPOCH: _ACTION,
        ApiKey.DESCRIBE_QUORUM: _DESCRIBE,
        ApiKey.ALTER_PARTITION: _ACTION,
        ApiKey.UPDATE_FEATURES: _ALTER,
        ApiKey.ENVELOPE: _ACTION,
        ApiKey.FETCH_SNAPSHOT: _ACTION,
        ApiKey.BROKER_REGISTRATION: _ACTION,
        ApiKey.BROKER_HEARTBEAT: _ACTION,
        ApiKey.UNREGISTER_BROKER: _ALTER,
        ApiKey.ALLOCATE_PRODUCER_IDS: _ACTION,
        ApiKey.CONTROLLER_REGISTRATION: _ACTION,
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _ACTION,
        ApiKey.LIST_CONFIG_RESOURCES: AclOperation.DESCRIBE_CONFIGS,
        ApiKey.ADD_RAFT_VOTER: _ALTER,
        ApiKey.REMOVE_RAFT_VOTER: _ALTER,
        ApiKey.UPDATE_RAFT_VOTER: _ACTION,
    }
)
"""The one permission that a whole request needs, on the cluster."""

BY_RESOURCE: Final[Mapping[ApiKey, str]] = MappingProxyType(
    {
        ApiKey.PRODUCE: "Write on each topic; Write on the transactional id",
        ApiKey.FETCH: "Read on each topic; ClusterAction for followers and on controllers",
        ApiKey.LIST_OFFSETS: "Describe on each topic",
        ApiKey.METADATA: "Describe on each topic; Create to have one created",
        ApiKey.OFFSET_COMMIT: "Read on the group and on each topic",
        ApiKey.OFFSET_FETCH: "Describe on each group and on each topic",
        ApiKey.FIND_COORDINATOR: "Describe on each group or transactional id",
        ApiKey.JOIN_GROUP: "Read on the group",
        ApiKey.HEARTBEAT: "Read on the group",
        ApiKey.LEAVE_GROUP: "Read on the group",
        ApiKey.SYNC_GROUP: "Read on the group",
        ApiKey.DESCRIBE_GROUPS: "Describe on each group",
        ApiKey.LIST_GROUPS: "Describe on the cluster, or on each group that is listed",
        ApiKey.CREATE_TOPICS: "Create on the cluster or on each topic",
        ApiKey.DELETE_TOPICS: "Delete on the cluster or on each topic",
        ApiKey.DELETE_RECORDS: "Delete on each topic",
        ApiKey.INIT_PRODUCER_ID: "Write on the transactional id; or IdempotentWrite on the "
        "cluster or Write on some topic",
        ApiKey.OFFSET_FOR_LEADER_EPOCH: "ClusterAction, or Describe on each topic",
        ApiKey.ADD_PARTITIONS_TO_TXN: "Write on the transactional id and on each topic; "
        "ClusterAction from version 4 on",
        ApiKey.ADD_OFFSETS_TO_TXN: "Write on the transactional id, Read on the group",
        ApiKey.END_TXN: "Write on the transactional id",
        ApiKey.WRITE_TXN_MARKERS: "Alter or ClusterAction",
        ApiKey.TXN_OFFSET_COMMIT: "Write on the transactional id, Read on the group and each topic",
        ApiKey.DESCRIBE_CONFIGS: "DescribeConfigs on each topic or group, or on the cluster",
        ApiKey.ALTER_CONFIGS: "AlterConfigs on each topic or group, or on the cluster",
        ApiKey.INCREMENTAL_ALTER_CONFIGS: "AlterConfigs on each topic or group, or on the cluster",
        ApiKey.CREATE_PARTITIONS: "Alter on each topic",
        ApiKey.DELETE_GROUPS: "Delete on each group",
        ApiKey.OFFSET_DELETE: "Delete on the group, Read on each topic",
        ApiKey.DESCRIBE_CLUSTER: "Alter on controllers; Describe to be told what may be done",
        ApiKey.DESCRIBE_PRODUCERS: "Read on each topic",
        ApiKey.DESCRIBE_TRANSACTIONS: "Describe on each transactional id and topic",
        ApiKey.LIST_TRANSACTIONS: "Describe on each transactional id that is listed",
        ApiKey.CONSUMER_GROUP_HEARTBEAT: "Read on the group, Describe on each topic",
        ApiKey.CONSUMER_GROUP_DESCRIBE: "Describe on each group and on all topics of its members",
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: "Describe on each topic",
    }
)
"""What handlers ask for themselves, for each resource that a request names."""

OPEN_TO_ALL: Final = frozenset(
    {ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
)
"""What everybody may know."""
