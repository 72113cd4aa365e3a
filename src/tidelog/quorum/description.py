"""What DescribeQuorum tells about the quorum."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from tidelog.quorum.control_records import VoterEndpoint


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaProgress:
    """How far a voter or observer has got; times are wall-clock, -1 when unknown."""

    replica_id: int
    directory_id: UUID
    log_end_offset: int
    last_fetch_ms: int = -1
    last_caught_up_ms: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumNode:
    """Where a voter listens."""

    node_id: int
    endpoints: tuple[VoterEndpoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class QuorumDescription:
    """The quorum as its leader sees it."""

    leader_id: int
    leader_epoch: int
    high_watermark: int
    voters: tuple[ReplicaProgress, ...]
    observers: tuple[ReplicaProgress, ...]
    nodes: tuple[QuorumNode, ...]
