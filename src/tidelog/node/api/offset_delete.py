"""OffsetDelete (key 47, version 0): forget offsets of topics that a group no longer reads."""

from __future__ import annotations

from collections.abc import Iterable

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.coordination.offset_verdicts import answered_partitions, offset_verdicts
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from tidelog.security.acls import AclOperation, ResourceType


def handle(
    context: GroupsContext, request: Request[OffsetDeleteRequest]
) -> OffsetDeleteResponse | Later:
    """Forget what can be forgotten."""
    body = request.body
    authorization = context.authorization
    if not authorization.allows(request, AclOperation.DELETE, ResourceType.GROUP, body.group_id):
        return OffsetDeleteResponse(error_code=ErrorCode.group_authorization_failed)
    if not body.group_id:
        return OffsetDeleteResponse(error_code=ErrorCode.invalid_group_id)
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    ]
    denied = authorization.denied(
        request, AclOperation.READ, ResourceType.TOPIC, (topic.name for topic in body.topics)
    )
    refused = [
        ErrorCode.topic_authorization_failed
        if each.topic in denied
        else ErrorCode.unknown_topic_or_partition
        if context.cluster.image.partition(*each) is None
        else None
        for each in asked
    ]
    known = [each for each, why in zip(asked, refused, strict=True) if why is None]
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        if isinstance(outcome, Refusal):
            request.answer(OffsetDeleteResponse(error_code=outcome.code))
        else:
            request.answer(_response(body, refused, outcome))

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.delete_offsets(body.group_id, known),
        answer,
    )
    return later


def _response(
    body: OffsetDeleteRequest, refused: Iterable[ErrorCode | None], decided: Iterable[ErrorCode]
) -> OffsetDeleteResponse:
    verdicts = offset_verdicts(body.topics, lambda topic: topic.name, refused, decided)
    return OffsetDeleteResponse(
        topics=[
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=answered_partitions(OffsetDeleteResponsePartition, partitions),
            )
            for topic, partitions in verdicts
        ]
    )
