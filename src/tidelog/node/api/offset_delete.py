"""OffsetDelete (key 47, version 0): forget offsets of topics that a group no longer reads."""

from __future__ import annotations

from typing import Any

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.coordination.offset_verdicts import offset_verdicts
from tidelog.node.core.request import Reply, Request


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Forget what can be forgotten."""
    body = request.body
    if not body.group_id:
        return {"error_code": ErrorCode.invalid_group_id, "topics": []}
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    ]
    refused = [
        ErrorCode.unknown_topic_or_partition
        if context.cluster.image.partition(*each) is None
        else None
        for each in asked
    ]
    known = [each for each, why in zip(asked, refused, strict=True) if why is None]
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        if isinstance(outcome, Refusal):
            request.answer({"error_code": outcome.code, "topics": []})
        else:
            verdicts = offset_verdicts(body.topics, refused, outcome)
            request.answer({"error_code": ErrorCode.none, **verdicts})

    context.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.delete_offsets(body.group_id, known),
        answer,
    )
    return later
