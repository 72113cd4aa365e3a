"""What members of classic groups are answered."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.errors import ErrorCode


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinReply:
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
class SyncReply:
    """What a member is assigned, or why it is not."""

    error: ErrorCode = ErrorCode.none
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""
