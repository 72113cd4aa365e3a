"""OffsetFetch: what a group has committed."""

from __future__ import annotations

from typing import Final, NamedTuple
from uuid import UUID

from tidelog.coordinator.groups.consumer.group import ConsumerGroup
from tidelog.coordinator.groups.group import Group
from tidelog.coordinator.groups.offsets import CommittedOffset, Offsets
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID, TopicPartition

UNKNOWN_OFFSET: Final = -1


class RequestedOffset(NamedTuple):
    """A partition, by name and, where the client knows it, by the id of its topic."""

    partition: TopicPartition
    topic_id: UUID = ZERO_UUID


class FetchedOffset(NamedTuple):
    """What is committed for one partition; the offset is -1 when nothing is."""

    partition: TopicPartition
    topic_id: UUID
    offset: int = UNKNOWN_OFFSET
    leader_epoch: int = -1
    metadata: str = ""
    error: ErrorCode = ErrorCode.none


def fetch_refused(group: Group | None, member_id: str | None, member_epoch: int) -> Refusal | None:
    """Why a member is told nothing: it is not, or no longer, the one it says it is."""
    if not isinstance(group, ConsumerGroup) or (member_id is None and member_epoch < 0):
        return None
    member = group.members.get(member_id or "")
    if member is None:
        return Refusal(ErrorCode.unknown_member_id, f"{member_id} is not a member")
    if member_epoch != member.epoch:
        why = f"the member is in epoch {member.epoch}, not {member_epoch}"
        return Refusal(ErrorCode.stale_member_epoch, why)
    return None


def fetch(
    offsets: Offsets, group_id: str, wanted: list[RequestedOffset] | None, *, stable_only: bool
) -> list[FetchedOffset]:
    """The offsets that were asked for, or all of them.

    With `stable_only`, an offset that an open transaction may change is withheld.
    """
    committed = offsets.of(group_id)
    unstable = offsets.pending_in(group_id) if stable_only else set()
    if wanted is None:
        everything = {**committed, **dict.fromkeys(unstable)}
        wanted = [RequestedOffset(partition) for partition in sorted(everything)]
    return [
        FetchedOffset(*each, error=ErrorCode.unstable_offset_commit)
        if each.partition in unstable
        else _fetched(each, committed.get(each.partition))
        for each in wanted
    ]


def _fetched(wanted: RequestedOffset, committed: CommittedOffset | None) -> FetchedOffset:
    if committed is None or _is_of_another_topic(wanted, committed):
        return FetchedOffset(*wanted)
    value = committed.value
    topic_id = value.topic_id if wanted.topic_id == ZERO_UUID else wanted.topic_id
    return FetchedOffset(
        wanted.partition, topic_id, value.offset, value.leader_epoch, value.metadata
    )


def _is_of_another_topic(wanted: RequestedOffset, committed: CommittedOffset) -> bool:
    """Whether the topic was deleted and created again since the commit."""
    known = committed.value.topic_id
    return ZERO_UUID not in (known, wanted.topic_id) and known != wanted.topic_id
