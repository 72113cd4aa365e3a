"""Classic groups as they are stored: one record holds a whole generation."""

from __future__ import annotations

from dataclasses import dataclass, field

from tidelog.protocol.schema import Int32, Int64, wire


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataKey:
    """A classic group."""

    group: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberMetadata:
    """A member, what it told when it joined, and what it was assigned."""

    member_id: str
    group_instance_id: str | None = field(default=None, metadata=wire(since=3))
    client_id: str
    client_host: str
    rebalance_timeout: Int32 = field(default=-1, metadata=wire(since=1))
    session_timeout: Int32
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """The last finished generation of a group."""

    protocol_type: str
    generation: Int32
    protocol: str | None = None
    leader: str | None = None
    current_state_timestamp: Int64 = field(default=-1, metadata=wire(since=2))
    members: tuple[MemberMetadata, ...] = ()
