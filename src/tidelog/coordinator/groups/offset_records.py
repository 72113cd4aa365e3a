"""Committed offsets as they are stored."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

from tidelog.model.ids import ZERO_UUID
from tidelog.protocol.schema import Int32, Int64, wire

EXPIRING_OFFSET_VERSION: Final = 1
"""The only version that can say when a client wants its offset forgotten."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitKey:
    """How far a group has come in a partition."""

    group: str
    topic: str
    partition: Int32


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetCommitValue:
    """The next offset to read, and what the client wants to remember with it."""

    offset: Int64
    leader_epoch: Int32 = field(default=-1, metadata=wire(since=3))
    metadata: str
    commit_timestamp: Int64
    expire_timestamp: Int64 = field(default=-1, metadata=wire(since=1, until=1))
    topic_id: UUID = field(default=ZERO_UUID, metadata=wire(since=4, tag=0))
