"""What the leader of the quorum gives to those who follow its log: records, or a snapshot.

Invariant  Only the leader of the epoch that a follower names gives it anything.
Invariant  A follower gets records only behind a log that is equal to the leader's up to there;
           otherwise it hears where the two part, or which snapshot to begin with.
"""

from __future__ import annotations

from typing import Final, Generic, NamedTuple, TypeVar
from uuid import UUID

from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_EPOCH, NO_LEADER, ZERO_UUID
from tidelog.quorum.leader import Leader
from tidelog.quorum.messages import Address, ReplicaKey
from tidelog.quorum.metadata_log import MetadataLog
from tidelog.quorum.snapshots import BOOTSTRAP_ID, SnapshotId
from tidelog.storage.log_values import LogSlice

R = TypeVar("R")
UNKNOWN_HIGH_WATERMARK: Final = (1 << 63) - 1
"""The high watermark of a follower that does not tell it: never in need of a newer one."""


class MetadataFetch(NamedTuple):
    """Where a follower's log ends, and what it knows of the leader."""

    replica_id: int
    directory_id: UUID = ZERO_UUID
    leader_epoch: int = 0
    offset: int = 0
    last_epoch: int = 0
    """Of the record before `offset`; 0 when there is none."""
    high_watermark: int = UNKNOWN_HIGH_WATERMARK
    max_bytes: int = 1 << 20


class MetadataFetchResponse(NamedTuple, Generic[R]):
    """What the leader has to say to that."""

    error: int = ErrorCode.none
    leader_id: int = NO_LEADER
    leader_epoch: int = NO_EPOCH
    leader_address: Address | None = None
    """Where the leader listens, when it is known."""
    high_watermark: int = -1
    log_start_offset: int = -1
    records: R | None = None
    diverging: tuple[int, int] | None = None
    """The follower's last epoch as the leader knows it, and where it ends."""
    snapshot: SnapshotId | None = None
    """Where to begin, since the log does not go back that far."""

    @property
    def is_fine(self) -> bool:
        """The follower stands where the leader's log can be followed."""
        return not self.error and self.diverging is None and self.snapshot is None

    def is_news_for(self, asked: MetadataFetch) -> bool:
        """Whether there is anything the follower does not know already."""
        return (
            not self.is_fine
            or self.records is not None
            or self.high_watermark > asked.high_watermark
        )


def answer_fetch(
    asked: MetadataFetch, log: MetadataLog, leader: Leader | None
) -> MetadataFetchResponse[LogSlice]:
    """Answer a follower from the log of this node."""
    if leader is None:
        return MetadataFetchResponse(error=ErrorCode.not_leader_or_follower)
    answer = MetadataFetchResponse[LogSlice](
        leader_id=leader.leader_id,
        leader_epoch=leader.epoch,
        high_watermark=leader.high_watermark,
        log_start_offset=log.start_offset,
    )
    if (
        asked.offset < 0
        or not 0 <= asked.last_epoch <= max(asked.leader_epoch, 0)
        or asked.leader_epoch < 0
    ):
        return answer._replace(error=ErrorCode.invalid_request)
    if asked.leader_epoch < leader.epoch:
        return answer._replace(error=ErrorCode.fenced_leader_epoch)
    if asked.leader_epoch > leader.epoch:
        return answer._replace(error=ErrorCode.unknown_leader_epoch)
    snapshot = _snapshot_to_begin_with(asked, log)
    if snapshot is not None:
        return answer._replace(snapshot=snapshot)
    if asked.offset == 0 and asked.last_epoch == 0:
        return answer._replace(records=log.read(0, asked.max_bytes))
    epoch, end = log.end_of_epoch(asked.last_epoch)
    if epoch != asked.last_epoch or end < asked.offset:
        return answer._replace(diverging=(epoch, end))
    return answer._replace(records=log.read(asked.offset, asked.max_bytes))


def _snapshot_to_begin_with(asked: MetadataFetch, log: MetadataLog) -> SnapshotId | None:
    newest, oldest = log.newest_snapshot, log.oldest_snapshot
    if newest is None or oldest is None or newest == BOOTSTRAP_ID:
        return None
    begins = asked.offset == 0
    too_old = (
        asked.offset < log.start_offset
        or (asked.offset == log.start_offset and asked.last_epoch != oldest.epoch)
        or asked.last_epoch < oldest.epoch
    )
    return newest if begins or too_old else None


class SnapshotFetch(NamedTuple):
    """Which bytes of which snapshot a node wants."""

    replica: ReplicaKey
    leader_epoch: int
    snapshot: SnapshotId
    position: int
    max_bytes: int


class SnapshotFetchResponse(NamedTuple):
    """Some bytes of a snapshot, or why there are none."""

    error: int = ErrorCode.none
    size: int = 0
    """Of the whole snapshot."""
    position: int = 0
    data: bytes = b""


def answer_snapshot_fetch(
    asked: SnapshotFetch, log: MetadataLog, leader: Leader | None
) -> SnapshotFetchResponse:
    """What the leader gives of a snapshot to somebody who names the leader's epoch."""
    if leader is None:
        return SnapshotFetchResponse(ErrorCode.not_leader_or_follower)
    if asked.leader_epoch != leader.epoch:
        is_older = asked.leader_epoch < leader.epoch
        return SnapshotFetchResponse(
            ErrorCode.fenced_leader_epoch if is_older else ErrorCode.unknown_leader_epoch
        )
    snapshot, position = asked.snapshot, asked.position
    if snapshot == BOOTSTRAP_ID or not log.has_snapshot(snapshot):
        return SnapshotFetchResponse(ErrorCode.snapshot_not_found)
    size = log.snapshot_size(snapshot)
    if not 0 <= position < size:
        return SnapshotFetchResponse(ErrorCode.position_out_of_range)
    return SnapshotFetchResponse(
        size=size, position=position, data=log.read_snapshot(snapshot, position, asked.max_bytes)
    )
