"""OffsetCommit and TxnOffsetCommit: who may commit for a group, and what is stored of it.

Invariant  Only a member of the present generation commits for a group that has members; anybody
           may for one that has none, and so may a transaction that does not say who it is.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias
from uuid import UUID

from tidelog.coordinator.groups.classic.group import ClassicGroup, ClassicGroupState
from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.consumer.member import ConsumerMember
from tidelog.coordinator.groups.group import Group
from tidelog.coordinator.groups.records import GroupRecord
from tidelog.coordinator.groups.topics import IdPartition
from tidelog.coordinator.result import CoordinatorResult, ProducerIdAndEpoch
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import (
    OffsetCommitKey,
    OffsetCommitValue,
)

LATEST_MS: Final = (1 << 63) - 1
MEMBER_EPOCHS_SINCE: Final = 9
MEMBER_EPOCHS_IN_TRANSACTIONS_SINCE: Final = 6


class OffsetAndMetadata(NamedTuple):
    """One offset to be committed."""

    topic: str
    partition: int
    offset: int
    leader_epoch: int = -1
    metadata: str | None = None
    topic_id: UUID = ZERO_UUID


class OffsetCommit(NamedTuple):
    """Offsets, and who commits them."""

    version: int
    group_id: str
    generation: int
    """The member epoch in groups of the consumer protocol."""
    member_id: str
    instance_id: str | None
    offsets: list[OffsetAndMetadata]
    retention_ms: int | None = None
    producer: ProducerIdAndEpoch | None = None
    """Given for offsets that count once this producer's transaction commits."""


OffsetCommitResult: TypeAlias = CoordinatorResult[GroupRecord, tuple[ErrorCode, ...]]
"""One outcome for each offset."""


def commit(
    group: Group | None, request: OffsetCommit, metadata_max: int, now: Now
) -> OffsetCommitResult | Refusal:
    """Commit the offsets that can be stored, or refuse them all."""
    refused = _commit_refused(group, request)
    if refused is not None:
        return Refusal(refused, f"offsets of group {request.group_id} are not for this member")
    outcomes: list[ErrorCode] = []
    records: list[GroupRecord] = []
    expires_ms = -1
    if request.retention_ms is not None:
        expires_ms = min(max(0, now.wall_ms + request.retention_ms), LATEST_MS)
    for offset in request.offsets:
        if offset.metadata is not None and len(offset.metadata) > metadata_max:
            outcomes.append(ErrorCode.offset_metadata_too_large)
            continue
        outcomes.append(ErrorCode.none)
        records.append(_record(request.group_id, offset, expires_ms, now))
    return CoordinatorResult(tuple(records), tuple(outcomes), producer=request.producer)


def _record(group_id: str, offset: OffsetAndMetadata, expires_ms: int, now: Now) -> GroupRecord:
    return GroupRecord(
        OffsetCommitKey(group=group_id, topic=offset.topic, partition=offset.partition),
        OffsetCommitValue(
            offset=offset.offset,
            leader_epoch=-1 if expires_ms >= 0 else offset.leader_epoch,
            metadata=offset.metadata or "",
            commit_timestamp=now.wall_ms,
            expire_timestamp=expires_ms,
            topic_id=ZERO_UUID if expires_ms >= 0 else offset.topic_id,
        ),
    )


def _commit_refused(group: Group | None, request: OffsetCommit) -> ErrorCode | None:
    if group is None:
        if request.generation < 0:
            return None
        by_epoch = _knows_member_epochs(request)
        return ErrorCode.group_id_not_found if by_epoch else ErrorCode.illegal_generation
    if isinstance(group, ConsumerGroup):
        return _consumer_refused(group, request)
    return _classic_refused(group, request)


def _consumer_refused(group: ConsumerGroup, request: OffsetCommit) -> ErrorCode | None:
    if request.generation < 0 and group.is_empty:
        return None
    is_nobody = request.generation < 0 and not request.member_id and request.instance_id is None
    if request.producer is not None and is_nobody:
        return None
    member = group.members.get(request.member_id)
    if member is None:
        return ErrorCode.unknown_member_id
    if member.classic is not None:
        return None if request.generation == member.epoch else ErrorCode.illegal_generation
    by_epoch = _knows_member_epochs(request)
    if request.producer is None and not by_epoch:
        return ErrorCode.unsupported_version
    if request.generation == member.epoch or _had_all(member, request):
        return None
    return ErrorCode.stale_member_epoch if by_epoch else ErrorCode.illegal_generation


def _knows_member_epochs(request: OffsetCommit) -> bool:
    """Whether the version of the request has the errors of groups with member epochs."""
    if request.producer is None:
        return request.version >= MEMBER_EPOCHS_SINCE
    return request.version >= MEMBER_EPOCHS_IN_TRANSACTIONS_SINCE


def _had_all(member: ConsumerMember, request: OffsetCommit) -> bool:
    """Whether a member commits in an earlier epoch what it has had ever since (KIP-1251)."""
    if request.generation > member.epoch:
        return False
    for offset in request.offsets:
        given = member.assigned.get(IdPartition(offset.topic_id, offset.partition))
        if given is None or request.generation < given:
            return False
    return True


def _classic_refused(group: ClassicGroup, request: OffsetCommit) -> ErrorCode | None:
    if request.generation < 0 and group.state is ClassicGroupState.EMPTY:
        return None
    if request.generation >= 0 or request.member_id or request.instance_id is not None:
        unfit = group.unfit_member(request.member_id, request.instance_id)
        if unfit is not None:
            return unfit
        if request.generation != group.generation:
            return ErrorCode.illegal_generation
    elif request.producer is None:
        return ErrorCode.unknown_member_id
    if request.producer is None and group.state is ClassicGroupState.COMPLETING:
        return ErrorCode.rebalance_in_progress
    return None
