"""OffsetCommit (key 8, versions 2-10): remember how far a group has come."""

from __future__ import annotations

from typing import Any, Final

from tidelog.coordinator.groups.offset_commits import OffsetAndMetadata, OffsetCommit
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.coordination.offset_verdicts import offset_verdicts
from tidelog.node.core.request import Reply, Request
from tidelog.protocol.entity_messages import field, milliseconds

BY_ID_SINCE: Final = 10


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Commit the offsets of partitions that exist; the answer waits until they are safe."""
    topics = request.body.topics
    refused: list[ErrorCode | None] = []
    wishes: list[OffsetAndMetadata] = []
    for topic in topics:
        name, topic_id, error = _topic(context, request, topic)
        for partition in topic.partitions:
            unknown = error
            if context.cluster.image.partition(name, partition.partition_index) is None:
                unknown = error or ErrorCode.unknown_topic_or_partition
            refused.append(unknown)
            if unknown is None:
                wishes.append(
                    OffsetAndMetadata(
                        name,
                        partition.partition_index,
                        partition.committed_offset,
                        field(partition, "committed_leader_epoch", -1),
                        partition.committed_metadata,
                        topic_id,
                    )
                )
    if not wishes:
        return offset_verdicts(topics, refused, ())
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        if isinstance(outcome, Refusal):
            outcome = (outcome.code,) * len(wishes)
        request.answer(offset_verdicts(topics, refused, outcome))

    wish = _wish(request, wishes)
    context.groups.ask(
        request.now,
        wish.group_id,
        lambda shard: shard.commit_offsets(wish, request.now),
        answer,
    )
    return later


def _topic(
    context: GroupsContext, request: Request[Any], topic: Any
) -> tuple[str, Any, ErrorCode | None]:
    """The topic by name and id, or why there is none."""
    if request.api_version >= BY_ID_SINCE:
        name = None if topic.topic_id is None else context.cluster.topic_name(topic.topic_id)
        if name is None:
            return "", ZERO_UUID, ErrorCode.unknown_topic_id
        return name, topic.topic_id, None
    known = context.cluster.image.topics_by_name.get(topic.name)
    if known is None:
        return topic.name, ZERO_UUID, ErrorCode.unknown_topic_or_partition
    return topic.name, known.topic_id, None


def _wish(request: Request[Any], wishes: list[OffsetAndMetadata]) -> OffsetCommit:
    body = request.body
    retention = field(body, "retention_time", None)
    retention_ms = None if retention is None else milliseconds(retention)
    return OffsetCommit(
        version=request.api_version,
        group_id=body.group_id,
        generation=body.generation_id_or_member_epoch,
        member_id=body.member_id,
        instance_id=field(body, "group_instance_id", None),
        offsets=wishes,
        retention_ms=None if retention_ms == -1 else retention_ms,
    )
