"""AssignReplicasToDirs (key 73, version 0): a broker says where its replicas lie (KIP-858)."""

from __future__ import annotations

from typing import Any

from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.node.api.contexts import ControllerContext
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: ControllerContext, request: Request[Any]) -> Reply:
    """Note it; each replica has an answer of its own."""
    body = request.body
    places = [
        ReplicaDirectory(
            directory.id_ or ZERO_UUID, topic.topic_id or ZERO_UUID, partition.partition_index
        )
        for directory in body.directories
        for topic in directory.topics
        for partition in topic.partitions
    ]
    return context.plane.decide(
        request,
        lambda controller: controller.assign_replicas_to_directories(
            body.broker_id, body.broker_epoch, places
        ),
        _answer,
        _answer,
    )


def _answer(outcome: AssignedReplicas | Refusal) -> Fields:
    if isinstance(outcome, Refusal):
        return {"error_code": outcome.code, "directories": []}
    directories: dict[Any, dict[Any, list[Fields]]] = {}
    for place, refusal in outcome:
        error = ErrorCode.none if refusal is None else refusal.code
        topics = directories.setdefault(place.directory_id, {})
        topics.setdefault(place.topic_id, []).append(
            {"partition_index": place.partition, "error_code": error}
        )
    return {
        "error_code": ErrorCode.none,
        "directories": [
            {
                "id_": directory_id,
                "topics": [
                    {"topic_id": topic_id, "partitions": partitions}
                    for topic_id, partitions in topics.items()
                ],
            }
            for directory_id, topics in directories.items()
        ],
    }
