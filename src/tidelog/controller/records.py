"""The metadata records: every change of the cluster's state is one of these values.

Their classes are generated from Kafka's definitions. The value of a record in the metadata log is
a frame (frame version, api key, record version) followed by the record.

Invariant  A record we cannot read stops the node (`UnappliableRecord`): skipping it would let this
           node's state drift away from everyone else's.
"""

from __future__ import annotations

from typing import Final, TypeAlias, get_args

from tidelog.model.errors import TidelogError
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.primitives import MALFORMED, read_uvarint, uvarint
from tidelog.protocol.stored.metadata import (
    AbortTransactionRecord,
    AccessControlEntryRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    DelegationTokenRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    UserScramCredentialRecord,
    ZkMigrationStateRecord,
)

FRAME_VERSION: Final = 1
LEADER_UNCHANGED: Final = -2
RECOVERED: Final = 0
RECOVERING: Final = 1
RECOVERY_STATE_UNCHANGED: Final = -1


class UnappliableRecord(TidelogError):
    """A metadata record this node cannot read or apply; the node must stop."""


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

RECORD_CLASSES: Final[tuple[type[MetadataRecord], ...]] = get_args(MetadataRecord)
_BY_API_KEY: Final = {record.API_KEY: record for record in RECORD_CLASSES}


def encode_record(record: MetadataRecord, version: int | None = None) -> bytes:
    """The value of the log record; `version` None takes what metadata.version 30 prescribes."""
    if version is None:
        version = _prescribed_version(record)
    frame = (uvarint(FRAME_VERSION), uvarint(record.API_KEY), uvarint(version))
    return b"".join((*frame, encode(record, version)))


def _prescribed_version(record: MetadataRecord) -> int:
    """The newest version, but for registration changes the oldest that can carry the change."""
    if not isinstance(record, BrokerRegistrationChangeRecord):
        return record.VERSIONS[1]
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
        if api_key not in _BY_API_KEY:
            raise UnappliableRecord(f"metadata record of unknown kind {api_key}")
        return decode(_BY_API_KEY[api_key], version, view[position:])
    except MALFORMED as error:
        raise UnappliableRecord(f"unreadable metadata record: {error}") from error
