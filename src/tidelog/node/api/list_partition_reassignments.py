"""ListPartitionReassignments (key 46, version 0): partitions on their way to other brokers."""

from __future__ import annotations

from typing import Any

from tidelog.controller.reassignment import OngoingTopics
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """What is under way in the partitions that are named, or in all."""
    named = request.body.topics
    wishes = None if named is None else [(topic.name, topic.partition_indexes) for topic in named]
    return context.control.decide(
        request,
        lambda controller: controller.list_partition_reassignments(wishes),
        _answer,
        _refused,
    )


def _answer(outcome: OngoingTopics) -> Fields:
    return {
        "error_code": ErrorCode.none,
        "error_message": None,
        "topics": [
            {
                "name": topic,
                "partitions": [
                    {
                        "partition_index": each.partition,
                        "replicas": list(each.replicas),
                        "adding_replicas": list(each.adding),
                        "removing_replicas": list(each.removing),
                    }
                    for each in partitions
                ],
            }
            for topic, partitions in outcome
        ],
    }


def _refused(refusal: Refusal) -> Fields:
    return {"error_code": refusal.code, "error_message": refusal.why, "topics": []}
