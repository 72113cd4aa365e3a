"""The APIs of the protocol: their keys, and for those we serve the versions and listeners.

One line of `SUPPORTED` is everything the rest of the code needs to know about an API; what is
not in the table is refused when its header is read.

Invariant  `min`..`max` is what ApiVersions shows. A version is understood only from
           `decodable_from` on: Produce shows 0-2 because librdkafka tests for them before it
           compresses (KAFKA-18659), although no client may send them any more.
Invariant  A version at or above `first_flexible` uses compact encodings, tagged fields and the
           newer request and response headers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, IntEnum, auto
from types import MappingProxyType
from typing import Final, NamedTuple


class ApiKey(IntEnum):
    """Every API key of the protocol, named as in Kafka. Keys 4-7 are gone for good."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    VOTE = 52
    BEGIN_QUORUM_EPOCH = 53
    END_QUORUM_EPOCH = 54
    DESCRIBE_QUORUM = 55
    ALTER_PARTITION = 56
    UPDATE_FEATURES = 57
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    BROKER_REGISTRATION = 62
    BROKER_HEARTBEAT = 63
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    ALLOCATE_PRODUCER_IDS = 67
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    CONTROLLER_REGISTRATION = 70
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    ASSIGN_REPLICAS_TO_DIRS = 73
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    ADD_RAFT_VOTER = 80
    REMOVE_RAFT_VOTER = 81
    UPDATE_RAFT_VOTER = 82
    INITIALIZE_SHARE_GROUP_STATE = 83
    READ_SHARE_GROUP_STATE = 84
    WRITE_SHARE_GROUP_STATE = 85
    DELETE_SHARE_GROUP_STATE = 86
    READ_SHARE_GROUP_STATE_SUMMARY = 87
    STREAMS_GROUP_HEARTBEAT = 88
    STREAMS_GROUP_DESCRIBE = 89
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92
    STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE = 93
    UNREGISTER_CONTROLLER = 94


class ListenerScope(Flag):
    """The kind of listener an API is answered on."""

    BROKER = auto()
    CONTROLLER = auto()
    BOTH = BROKER | CONTROLLER


class VersionRange(NamedTuple):
    """What we serve of one API."""

    min: int
    max: int
    first_flexible: int
    scope: ListenerScope
    decodable_from: int

    def understands(self, version: int) -> bool:
        """Whether a request of this version can be decoded and answered."""
        return self.decodable_from <= version <= self.max


NEVER_FLEXIBLE: Final = 1 << 15
_B: Final = ListenerScope.BROKER
_C: Final = ListenerScope.CONTROLLER
_BC: Final = ListenerScope.BOTH


def _served(
    min_version: int,
    max_version: int,
    first_flexible: int,
    scope: ListenerScope,
    *,
    decodable_from: int | None = None,
) -> VersionRange:
    first = min_version if decodable_from is None else decodable_from
    return VersionRange(min_version, max_version, first_flexible, scope, first)


SUPPORTED: Final[Mapping[ApiKey, VersionRange]] = MappingProxyType(
    {
        ApiKey.PRODUCE: _served(0, 13, 9, _B, decodable_from=3),
        ApiKey.FETCH: _served(4, 18, 12, _BC),
        ApiKey.LIST_OFFSETS: _served(1, 11, 6, _B),
        ApiKey.METADATA: _served(0, 13, 9, _B),
        ApiKey.OFFSET_COMMIT: _served(2, 10, 8, _B),
        ApiKey.OFFSET_FETCH: _served(1, 10, 6, _B),
        ApiKey.FIND_COORDINATOR: _served(0, 6, 3, _B),
        ApiKey.JOIN_GROUP: _served(0, 9, 6, _B),
        ApiKey.HEARTBEAT: _served(0, 4, 4, _B),
        ApiKey.LEAVE_GROUP: _served(0, 5, 4, _B),
        ApiKey.SYNC_GROUP: _served(0, 5, 4, _B),
        ApiKey.DESCRIBE_GROUPS: _served(0, 6, 5, _B),
        ApiKey.LIST_GROUPS: _served(0, 5, 3, _B),
        ApiKey.SASL_HANDSHAKE: _served(0, 1, NEVER_FLEXIBLE, _BC),
        ApiKey.API_VERSIONS: _served(0, 5, 3, _BC),
        ApiKey.CREATE_TOPICS: _served(2, 7, 5, _BC),
        ApiKey.DELETE_TOPICS: _served(1, 6, 4, _BC),
        ApiKey.DELETE_RECORDS: _served(0, 2, 2, _B),
        ApiKey.INIT_PRODUCER_ID: _served(0, 6, 2, _B),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: _served(2, 4, 4, _B),
        ApiKey.ADD_PARTITIONS_TO_TXN: _served(0, 5, 3, _B),
        ApiKey.ADD_OFFSETS_TO_TXN: _served(0, 4, 3, _B),
        ApiKey.END_TXN: _served(0, 5, 3, _B),
        ApiKey.WRITE_TXN_MARKERS: _served(1, 2, 1, _B),
        ApiKey.TXN_OFFSET_COMMIT: _served(0, 6, 3, _B),
        ApiKey.DESCRIBE_ACLS: _served(1, 3, 2, _BC),
        ApiKey.CREATE_ACLS: _served(1, 3, 2, _BC),
        ApiKey.DELETE_ACLS: _served(1, 3, 2, _BC),
        ApiKey.DESCRIBE_CONFIGS: _served(1, 4, 4, _BC),
        ApiKey.ALTER_CONFIGS: _served(0, 2, 2, _BC),
        ApiKey.DESCRIBE_LOG_DIRS: _served(1, 5, 2, _B),
        ApiKey.SASL_AUTHENTICATE: _served(0, 2, 2, _BC),
        ApiKey.CREATE_PARTITIONS: _served(0, 3, 2, _BC),
        ApiKey.DELETE_GROUPS: _served(0, 2, 2, _B),
        ApiKey.ELECT_LEADERS: _served(0, 2, 2, _BC),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: _served(0, 1, 1, _BC),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: _served(0, 1, 0, _BC),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: _served(0, 0, 0, _BC),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: _served(0, 1, 1, _B),
        ApiKey.ALTER_CLIENT_QUOTAS: _served(0, 1, 1, _BC),
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: _served(0, 0, 0, _BC),
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _served(0, 0, 0, _BC),
        ApiKey.VOTE: _served(0, 2, 0, _C),
        ApiKey.BEGIN_QUORUM_EPOCH: _served(0, 1, 1, _C),
        ApiKey.END_QUORUM_EPOCH: _served(0, 1, 1, _C),
        ApiKey.OFFSET_DELETE: _served(0, 0, NEVER_FLEXIBLE, _B),
        ApiKey.DESCRIBE_QUORUM: _served(0, 2, 0, _BC),
        ApiKey.ALTER_PARTITION: _served(2, 3, 0, _C),
        ApiKey.UPDATE_FEATURES: _served(0, 2, 0, _BC),
        ApiKey.ENVELOPE: _served(0, 0, 0, _C),
        ApiKey.FETCH_SNAPSHOT: _served(0, 1, 0, _C),
        ApiKey.DESCRIBE_CLUSTER: _served(0, 2, 0, _BC),
        ApiKey.DESCRIBE_PRODUCERS: _served(0, 0, 0, _B),
        ApiKey.BROKER_REGISTRATION: _served(0, 4, 0, _C),
        ApiKey.BROKER_HEARTBEAT: _served(0, 2, 0, _C),
        ApiKey.UNREGISTER_BROKER: _served(0, 0, 0, _BC),
        ApiKey.DESCRIBE_TRANSACTIONS: _served(0, 0, 0, _B),
        ApiKey.LIST_TRANSACTIONS: _served(0, 2, 0, _B),
        ApiKey.ALLOCATE_PRODUCER_IDS: _served(0, 0, 0, _C),
        ApiKey.CONTROLLER_REGISTRATION: _served(0, 0, 0, _C),
        ApiKey.CONSUMER_GROUP_HEARTBEAT: _served(0, 1, 0, _B),
        ApiKey.CONSUMER_GROUP_DESCRIBE: _served(0, 1, 0, _B),
        ApiKey.ASSIGN_REPLICAS_TO_DIRS: _served(0, 0, 0, _C),
        ApiKey.LIST_CONFIG_RESOURCES: _served(0, 1, 0, _B),
        ApiKey.DESCRIBE_TOPIC_PARTITIONS: _served(0, 0, 0, _B),
        ApiKey.ADD_RAFT_VOTER: _served(0, 1, 0, _BC),
        ApiKey.REMOVE_RAFT_VOTER: _served(0, 0, 0, _BC),
        ApiKey.UPDATE_RAFT_VOTER: _served(0, 0, 0, _C),
    }
)

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)
"""What a broker passes on to the active controller, in an Envelope."""
