"""The quorum's own records: who leads, who votes, where a snapshot begins and ends.

They stand in control batches, which the controller never sees. The key names the kind; the value
is a message in Kafka's flexible encoding, version 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias
from uuid import UUID

from tidelog.model.errors import TidelogError
from tidelog.protocol.schema import Int16, Int32, Int64, MalformedMessage, Schema, UInt16
from tidelog.records.builder import NewRecord
from tidelog.records.control_batch import ControlKind, control_kind, control_record
from tidelog.records.record import Record

_VERSION: Final = 0


class UnreadableControlRecord(TidelogError):
    """A control record this node does not understand; the node must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderVoter:
    """A voter as the leader change names it."""

    voter_id: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaderChange:
    """First record of an epoch: who leads it, and whose votes made it so."""

    version: Int16 = _VERSION
    leader_id: Int32
    voters: tuple[LeaderVoter, ...]
    granting_voters: tuple[LeaderVoter, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """First record of a snapshot; the time of the last record it stands for."""

    version: Int16 = _VERSION
    last_contained_log_timestamp: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotFooter:
    """Last record of a snapshot: without it the file is not whole."""

    version: Int16 = _VERSION


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersion:
    """0: the voters stand in every node's configuration; 1: they stand in the log."""

    version: Int16 = _VERSION
    kraft_version: Int16


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    """Where a voter listens for its peers."""

    name: str
    host: str
    port: UInt16


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionRange:
    """The values of kraft.version a voter supports."""

    min_supported_version: Int16 = 0
    max_supported_version: Int16 = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A member of the quorum; a node with another metadata directory is another member."""

    voter_id: Int32
    voter_directory_id: UUID
    endpoints: tuple[VoterEndpoint, ...]
    kraft_version_feature: KRaftVersionRange = KRaftVersionRange()

    @property
    def key(self) -> tuple[int, UUID]:
        """By which a member is told from a node that came in its place."""
        return self.voter_id, self.voter_directory_id

    def address(self, listener: str) -> tuple[str, int] | None:
        """Where the member is found by users of that listener."""
        for endpoint in self.endpoints:
            if endpoint.name == listener:
                return endpoint.host, endpoint.port
        return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Voters:
    """The members of the quorum; in effect as soon as it stands in the log."""

    version: Int16 = _VERSION
    voters: tuple[Voter, ...]


ControlRecord: TypeAlias = LeaderChange | SnapshotHeader | SnapshotFooter | KRaftVersion | Voters

_SCHEMAS: Final[dict[ControlKind, Schema[Any]]] = {
    kind: Schema(record, versions=(_VERSION, _VERSION), flexible_since=0)
    for kind, record in (
        (ControlKind.LEADER_CHANGE, LeaderChange),
        (ControlKind.SNAPSHOT_HEADER, SnapshotHeader),
        (ControlKind.SNAPSHOT_FOOTER, SnapshotFooter),
        (ControlKind.KRAFT_VERSION, KRaftVersion),
        (ControlKind.KRAFT_VOTERS, Voters),
    )
}
_KINDS: Final[dict[type[Any], ControlKind]] = {
    LeaderChange: ControlKind.LEADER_CHANGE,
    SnapshotHeader: ControlKind.SNAPSHOT_HEADER,
    SnapshotFooter: ControlKind.SNAPSHOT_FOOTER,
    KRaftVersion: ControlKind.KRAFT_VERSION,
    Voters: ControlKind.KRAFT_VOTERS,
}


def new_control_record(record: ControlRecord, timestamp: int) -> NewRecord:
    """The control record ready for a control batch."""
    kind = _KINDS[type(record)]
    return control_record(kind, _SCHEMAS[kind].encode(record, _VERSION), timestamp)


def read_control_record(record: Record) -> ControlRecord:
    """What a record of a control batch says."""
    kind = control_kind(record.key)
    if kind not in _SCHEMAS or record.value is None:
        raise UnreadableControlRecord(f"offset {record.offset} has an unknown control record")
    try:
        message: ControlRecord = _SCHEMAS[kind].decode(record.value, _VERSION)
    except MalformedMessage as error:
        raise UnreadableControlRecord(
            f"control record at offset {record.offset}: {error}"
        ) from error
    return message
