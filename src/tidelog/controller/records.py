"""The metadata records: every change of the cluster's state is one of these values.

Names and fields are KRaft's. The value of a record in the metadata log is a frame (frame version,
api key, record version) followed by the record in Kafka's flexible encoding.

Invariant  A record we cannot read stops the node (`UnappliableRecord`): skipping it would let this
           node's state drift away from everyone else's.
Invariant  Values are immutable and compare by content; all sequences are tuples.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias
from uuid import UUID

from tidelog.controller.security_records import (
    AccessControlEntryRecord,
    ClientQuotaRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
)
from tidelog.model.errors import TidelogError
from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.encoding import MalformedMessage, read_uvarint, write_uvarint
from tidelog.protocol.schema import Int8, Int16, Int32, Int64, Schema, UInt16, UnknownVersion, wire

FRAME_VERSION: Final = 1
LEADER_UNCHANGED: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
RECOVERY_STATE_UNCHANGED: Final = -1


class UnappliableRecord(TidelogError):
    """A metadata record this node cannot read or apply; the node must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """Where a broker or controller listens: one listener."""

    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureRange:
    """The levels of one feature that a node supports."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker process joined; it starts fenced unless it amends a registration."""

    broker_id: Int32
    is_migrating_zk_broker: bool = field(default=False, metadata=wire(since=2))
    incarnation_id: UUID
    broker_epoch: Int64
    end_points: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: bool = field(default=False, metadata=wire(since=1))
    log_dirs: tuple[UUID, ...] = field(default=(), metadata=wire(since=3, tag=0))
    cordoned_log_dirs: tuple[UUID, ...] | None = field(default=None, metadata=wire(since=4, tag=1))


@dataclass(frozen=True, slots=True, kw_only=True)
class UnregisterBrokerRecord:
    """A broker was removed from the cluster."""

    broker_id: Int32
    broker_epoch: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created; its partitions follow."""

    name: str
    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """The whole state of one partition."""

    partition_id: Int32 = -1
    topic_id: UUID
    replicas: tuple[Int32, ...] = ()
    isr: tuple[Int32, ...] = ()
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32 = -1
    leader_recovery_state: Int8 = field(default=RECOVERED, metadata=wire(tag=0))
    leader_epoch: Int32 = -1
    partition_epoch: Int32 = -1
    directories: tuple[UUID, ...] = field(default=(), metadata=wire(since=1))
    eligible_leader_replicas: tuple[Int32, ...] | None = field(
        default=None, metadata=wire(since=2, tag=1)
    )
    last_known_elr: tuple[Int32, ...] | None = field(default=None, metadata=wire(since=2, tag=2))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """One setting of one resource; a null value removes it."""

    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """What changed in one partition; None (or -2, -1 for the numbers) leaves a part as it was."""

    partition_id: Int32 = -1
    topic_id: UUID
    isr: tuple[Int32, ...] | None = field(default=None, metadata=wire(tag=0))
    leader: Int32 = field(default=LEADER_UNCHANGED, metadata=wire(tag=1))
    replicas: tuple[Int32, ...] | None = field(default=None, metadata=wire(tag=2))
    removing_replicas: tuple[Int32, ...] | None = field(default=None, metadata=wire(tag=3))
    adding_replicas: tuple[Int32, ...] | None = field(default=None, metadata=wire(tag=4))
    leader_recovery_state: Int8 = field(default=RECOVERY_STATE_UNCHANGED, metadata=wire(tag=5))
    directories: tuple[UUID, ...] | None = field(default=None, metadata=wire(since=1, tag=8))
    eligible_leader_replicas: tuple[Int32, ...] | None = field(
        default=None, metadata=wire(since=2, tag=6)
    )
    last_known_elr: tuple[Int32, ...] | None = field(default=None, metadata=wire(since=2, tag=7))


@dataclass(frozen=True, slots=True, kw_only=True)
class FenceBrokerRecord:
    """A broker was fenced; only logs of old clusters hold it."""

    id: Int32
    epoch: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class UnfenceBrokerRecord:
    """A broker was unfenced; only logs of old clusters hold it."""

    id: Int32
    epoch: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is gone with its partitions and configs."""

    topic_id: UUID


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature of the cluster was finalized at a level; level 0 switches it off."""

    name: str
    feature_level: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """A block of producer ids was handed to a broker; the next block starts here."""

    broker_id: Int32
    broker_epoch: Int64 = -1
    next_producer_id: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerRegistrationChangeRecord:
    """A registered broker was fenced (1), unfenced (-1), began its shutdown (1), or lost dirs."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = field(default=0, metadata=wire(tag=0))
    in_controlled_shutdown: Int8 = field(default=0, metadata=wire(since=1, tag=1))
    log_dirs: tuple[UUID, ...] = field(default=(), metadata=wire(since=2, tag=2))
    cordoned_log_dirs: tuple[UUID, ...] | None = field(default=None, metadata=wire(since=3, tag=3))


@dataclass(frozen=True, slots=True, kw_only=True)
class NoOpRecord:
    """Nothing changed; the log end moved, which tells brokers that they are up to date."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZkMigrationStateRecord:
    """Where a cluster that once ran on ZooKeeper stood; 0 for all others."""

    zk_migration_state: Int8


@dataclass(frozen=True, slots=True, kw_only=True)
class BeginTransactionRecord:
    """What follows takes effect together, at the end record, or not at all."""

    name: str | None = field(default=None, metadata=wire(tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransactionRecord:
    """Everything since the begin record takes effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AbortTransactionRecord:
    """Nothing since the begin record takes effect."""

    reason: str | None = field(default=None, metadata=wire(tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterControllerRecord:
    """A controller process joined."""

    controller_id: Int32
    incarnation_id: UUID = ZERO_UUID
    zk_migration_ready: bool = False
    end_points: tuple[Endpoint, ...] = ()
    features: tuple[FeatureRange, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearElrRecord:
    """The eligible leader replicas of a topic, or of all with an empty name, are void."""

    topic_name: str


MetadataRecord: TypeAlias = (
    RegisterBrokerRecord
    | UnregisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | ConfigRecord
    | PartitionChangeRecord
    | FenceBrokerRecord
    | UnfenceBrokerRecord
    | RemoveTopicRecord
    | DelegationTokenRecord
    | UserScramCredentialRecord
    | FeatureLevelRecord
    | ClientQuotaRecord
    | ProducerIdsRecord
    | BrokerRegistrationChangeRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | NoOpRecord
    | ZkMigrationStateRecord
    | RemoveUserScramCredentialRecord
    | BeginTransactionRecord
    | EndTransactionRecord
    | AbortTransactionRecord
    | RemoveDelegationTokenRecord
    | RegisterControllerRecord
    | ClearElrRecord
)

_SCHEMAS: Final[dict[int, tuple[type[Any], Schema[Any]]]] = {
    api_key: (record, Schema(record, versions=(0, newest), flexible_since=0))
    for api_key, record, newest in (
        (0, RegisterBrokerRecord, 4),
        (1, UnregisterBrokerRecord, 0),
        (2, TopicRecord, 0),
        (3, PartitionRecord, 2),
        (4, ConfigRecord, 0),
        (5, PartitionChangeRecord, 2),
        (7, FenceBrokerRecord, 0),
        (8, UnfenceBrokerRecord, 0),
        (9, RemoveTopicRecord, 0),
        (10, DelegationTokenRecord, 0),
        (11, UserScramCredentialRecord, 0),
        (12, FeatureLevelRecord, 0),
        (14, ClientQuotaRecord, 0),
        (15, ProducerIdsRecord, 0),
        (17, BrokerRegistrationChangeRecord, 3),
        (18, AccessControlEntryRecord, 0),
        (19, RemoveAccessControlEntryRecord, 0),
        (20, NoOpRecord, 0),
        (21, ZkMigrationStateRecord, 0),
        (22, RemoveUserScramCredentialRecord, 0),
        (23, BeginTransactionRecord, 0),
        (24, EndTransactionRecord, 0),
        (25, AbortTransactionRecord, 0),
        (26, RemoveDelegationTokenRecord, 0),
        (27, RegisterControllerRecord, 0),
        (28, ClearElrRecord, 0),
    )
}
_API_KEYS: Final[dict[type[Any], int]] = {entry[0]: key for key, entry in _SCHEMAS.items()}

RECORD_VERSIONS: Final[dict[type[Any], tuple[int, int]]] = {
    record: schema.versions for record, schema in _SCHEMAS.values()
}


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value of the log record; `version` None takes what metadata.version 30 prescribes."""
    api_key = _API_KEYS[type(record)]
    schema = _SCHEMAS[api_key][1]
    if version is None:
        version = _prescribed_version(record, schema.versions[1])
    out = bytearray((FRAME_VERSION,))
    write_uvarint(out, api_key)
    write_uvarint(out, version)
    out += schema.encode(record, version)
    return bytes(out)


def _prescribed_version(record: MetadataRecord, newest: int) -> int:
    """The newest version, but for registration changes the oldest that can carry the change."""
    if not isinstance(record, BrokerRegistrationChangeRecord):
        return newest
    if record.cordoned_log_dirs is not None:
        return 3
    if record.log_dirs:
        return 2
    return 1 if record.in_controlled_shutdown else 0


def decode_record(value: bytes | bytearray | memoryview) -> MetadataRecord:
    """The record in the value of a log record; `UnappliableRecord` when we cannot apply it."""
    view = memoryview(value)
    try:
        frame_version, position = read_uvarint(view, 0)
        api_key, position = read_uvarint(view, position)
        version, position = read_uvarint(view, position)
        if frame_version != FRAME_VERSION:
            raise UnappliableRecord(f"metadata record with frame version {frame_version}")
        if api_key not in _SCHEMAS:
            raise UnappliableRecord(f"metadata record of unknown kind {api_key}")
        record: MetadataRecord = _SCHEMAS[api_key][1].decode(view[position:], version)
    except (IndexError, MalformedMessage, UnknownVersion) as error:
        raise UnappliableRecord(f"unreadable metadata record: {error}") from error
    return record
