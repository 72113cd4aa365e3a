"""OffsetDelete (key 47, version 0): forget offsets of topics that a group no longer reads."""

from __future__ import annotations

from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """Forget what can be forgotten."""
    body = request.body
    if not body.group_id:
        return {"error_code": ErrorCode.invalid_group_id, "topics": []}
    asked = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in body.topics
        for partition in topic.partitions
    ]
    known = [each for each in asked if broker.image.partition(*each) is not None]
    later = request.park()

    def answer(outcome: tuple[ErrorCode, ...] | Refusal) -> None:
        if isinstance(outcome, Refusal):
            request.answer({"error_code": outcome.code, "topics": []})
        else:
            request.answer(_fields(request, dict(zip(known, outcome, strict=True))))

    broker.groups.ask(
        request.now,
        body.group_id,
        lambda shard: shard.delete_offsets(body.group_id, known),
        answer,
    )
    return later


def _fields(request: Request, outcomes: dict[TopicPartition, ErrorCode]) -> Fields:
    missing = ErrorCode.unknown_topic_or_partition
    return {
        "error_code": ErrorCode.none,
        "topics": [
            {
                "name": topic.name,
                "partitions": [
                    {
                        "partition_index": each.partition_index,
                        "error_code": outcomes.get(
                            TopicPartition(topic.name, each.partition_index), missing
                        ),
                    }
                    for each in topic.partitions
                ],
            }
            for topic in request.body.topics
        ],
    }
