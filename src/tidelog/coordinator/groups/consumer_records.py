"""Groups of the consumer protocol (KIP-848) as they are stored: group, members, target, present."""

from __future__ import annotations

from dataclasses import dataclass, field
from uuid import UUID

from tidelog.protocol.schema import Int8, Int32, Int64, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataKey:
    """A group of the consumer protocol."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMetadataValue:
    """Its epoch, which rises whenever members or topics change."""

    epoch: Int32
    metadata_hash: Int64 = field(default=0, metadata=wire(tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataKey:
    """A member."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicProtocol:
    """A protocol that a member offers, with its subscription in that protocol's form."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicMemberMetadata:
    """What is known of a member that still speaks the classic protocol."""

    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMemberMetadataValue:
    """What a member told about itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...] = ()
    subscribed_topic_regex: str | None = None
    rebalance_timeout_ms: Int32 = -1
    server_assignor: str | None = None
    classic_member_metadata: ClassicMemberMetadata | None = field(
        default=ClassicMemberMetadata(), metadata=wire(tag=0)
    )
    """None for a member of the consumer protocol, which must be said: an absent tag is no None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataKey:
    """The target assignment of a group."""

    group_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMetadataValue:
    """The group epoch for which the target was computed, and when."""

    assignment_epoch: Int32
    assignment_timestamp: Int64 = field(default=0, metadata=wire(tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberKey:
    """A member's part of the target assignment."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TargetPartitions:
    """Partitions of one topic."""

    topic_id: UUID
    partitions: tuple[Int32, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupTargetAssignmentMemberValue:
    """What a member is to have once everybody has followed the target."""

    topic_partitions: tuple[TargetPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentKey:
    """What a member has now."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CurrentPartitions:
    """Partitions of one topic, and the member epochs in which they were given."""

    topic_id: UUID
    partitions: tuple[Int32, ...]
    assignment_epochs: tuple[Int32, ...] | None = field(default=None, metadata=wire(tag=0))


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupCurrentMemberAssignmentValue:
    """How far a member has followed the target, and what it has and must give back."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[CurrentPartitions, ...] = ()
    partitions_pending_revocation: tuple[CurrentPartitions, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionKey:
    """A regular expression that members subscribe to."""

    group_id: str
    regular_expression: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRegularExpressionValue:
    """The topics that it matched, by which version of the metadata, and when."""

    topics: tuple[str, ...]
    version: Int64
    timestamp: Int64
