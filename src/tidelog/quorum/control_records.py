"""The quorum's own records: who leads, who votes, where a snapshot begins and ends.

They stand in control batches, which the controller never sees. The key names the kind; the value
is a message in Kafka's flexible encoding, version 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias
from uuid import UUID

from tidelog.model.errors import TidelogError
from tidelog.protocol.codec import decode, encode
from tidelog.protocol.primitives import MalformedRequest
from tidelog.protocol.stored.quorum import (
    KRaftVersionRecord,
    LeaderChangeMessage,
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    VotersRecord,
    VotersRecordEndpoint,
    VotersRecordKRaftVersionFeature,
    VotersRecordVoter,
)
from tidelog.records.builder import NewRecord
from tidelog.records.control_batch import ControlKind, control_kind, control_record
from tidelog.records.record import Record

_VERSION: Final = 0


class UnreadableControlRecord(TidelogError):
    """A control record this node does not understand; the node must stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VoterEndpoint:
    """Where a voter listens for its peers."""

    name: str
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KRaftVersionRange:
    """The values of kraft.version a voter supports."""

    min_supported_version: int = 0
    max_supported_version: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Voter:
    """A member of the quorum; a node with another metadata directory is another member."""

    voter_id: int
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

    version: int = _VERSION
    voters: tuple[Voter, ...]

    def message(self) -> VotersRecord:
        """As the log tells of them."""
        return VotersRecord(
            voters=tuple(
                VotersRecordVoter(
                    voter_id=voter.voter_id,
                    voter_directory_id=voter.voter_directory_id,
                    endpoints=tuple(
                        VotersRecordEndpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ),
                    kraft_version_feature=VotersRecordKRaftVersionFeature(
                        min_supported_version=voter.kraft_version_feature.min_supported_version,
                        max_supported_version=voter.kraft_version_feature.max_supported_version,
                    ),
                )
                for voter in self.voters
            )
        )

    @staticmethod
    def of(message: VotersRecord) -> Voters:
        """As the log tells of them."""
        return Voters(
            voters=tuple(
                Voter(
                    voter_id=voter.voter_id,
                    voter_directory_id=voter.voter_directory_id,
                    endpoints=tuple(
                        VoterEndpoint(name=each.name, host=each.host, port=each.port)
                        for each in voter.endpoints
                    ),
                    kraft_version_feature=KRaftVersionRange(
                        min_supported_version=voter.kraft_version_feature.min_supported_version,
                        max_supported_version=voter.kraft_version_feature.max_supported_version,
                    ),
                )
                for voter in message.voters
            )
        )


ControlMessage: TypeAlias = (
    LeaderChangeMessage
    | SnapshotHeaderRecord
    | SnapshotFooterRecord
    | KRaftVersionRecord
    | VotersRecord
)
ControlRecord: TypeAlias = (
    LeaderChangeMessage | SnapshotHeaderRecord | SnapshotFooterRecord | KRaftVersionRecord | Voters
)

_MESSAGES: Final[dict[ControlKind, type[ControlMessage]]] = {
    ControlKind.LEADER_CHANGE: LeaderChangeMessage,
    ControlKind.SNAPSHOT_HEADER: SnapshotHeaderRecord,
    ControlKind.SNAPSHOT_FOOTER: SnapshotFooterRecord,
    ControlKind.KRAFT_VERSION: KRaftVersionRecord,
    ControlKind.KRAFT_VOTERS: VotersRecord,
}
_KINDS: Final = {message: kind for kind, message in _MESSAGES.items()}


def new_control_record(record: ControlRecord, timestamp: int) -> NewRecord:
    """The control record ready for a control batch."""
    message = record.message() if isinstance(record, Voters) else record
    return control_record(_KINDS[type(message)], encode(message, _VERSION), timestamp)


def read_control_record(record: Record) -> ControlRecord:
    """What a record of a control batch says."""
    kind = control_kind(record.key)
    if kind not in _MESSAGES or record.value is None:
        raise UnreadableControlRecord(f"offset {record.offset} has an unknown control record")
    try:
        message = decode(_MESSAGES[kind], _VERSION, record.value)
    except MalformedRequest as error:
        raise UnreadableControlRecord(
            f"control record at offset {record.offset}: {error}"
        ) from error
    return Voters.of(message) if isinstance(message, VotersRecord) else message
