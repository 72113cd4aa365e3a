"""A member of a classic group, and what it is answered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from tidelog.coordinator.result import Answer
from tidelog.model.errors import ErrorCode
from tidelog.protocol.stored.groups import MemberMetadata

Protocols: TypeAlias = tuple[tuple[str, bytes], ...]
"""Names in the order of preference, each with the member's metadata for it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinGroupReply:
    """A generation, or why not; the leader is told of all members."""

    error: ErrorCode = ErrorCode.none
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    skip_assignment: bool = False
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    """Member id, instance id, metadata."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SyncGroupReply:
    """What a member is assigned, or why it is not."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


@dataclass(slots=True, kw_only=True)
class ClassicMember:
    """What it told when it joined, what it was assigned, and whether it waits for an answer."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: Protocols
    assignment: bytes = b""
    awaits_join: Answer[JoinGroupReply] | None = None
    awaits_sync: Answer[SyncGroupReply] | None = None
    is_new: bool = False
    """It has not been told of a generation yet, and so cannot send heartbeats."""

    @property
    def is_static(self) -> bool:
        return self.instance_id is not None

    @property
    def is_heard_of(self) -> bool:
        """Whether a request of its own waits here, which is as good as a heartbeat."""
        return (self.awaits_join is not None and not self.is_new) or self.awaits_sync is not None

    def metadata_for(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol."""
        return dict(self.protocols).get(protocol or "", b"")

    def stored(self, protocol: str | None, assignment: bytes) -> MemberMetadata:
        """The member as part of a generation."""
        return MemberMetadata(
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            client_id=self.client_id,
            client_host=self.client_host,
            rebalance_timeout=self.rebalance_timeout_ms,
            session_timeout=self.session_timeout_ms,
            subscription=self.metadata_for(protocol),
            assignment=assignment,
        )


def restored_member(stored: MemberMetadata, protocol: str | None) -> ClassicMember:
    """A member as the log tells of it."""
    rebalance_timeout_ms = stored.rebalance_timeout
    if rebalance_timeout_ms == -1:
        rebalance_timeout_ms = stored.session_timeout
    return ClassicMember(
        member_id=stored.member_id,
        instance_id=stored.group_instance_id,
        client_id=stored.client_id,
        client_host=stored.client_host,
        rebalance_timeout_ms=rebalance_timeout_ms,
        session_timeout_ms=stored.session_timeout,
        protocols=((protocol or "", stored.subscription),),
        assignment=stored.assignment,
    )
