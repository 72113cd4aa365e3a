"""AlterPartitionReassignments (key 45, versions 0-1): move partitions to other brokers."""

from __future__ import annotations

from typing import Any

from tidelog.controller.reassignment import NewPartitionReassignment, ReassignedTopics
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Begin, change or cancel a reassignment of each partition that is named."""
    body = request.body
    factor_may_change = field(body, "allow_replication_factor_change", True)
    wishes = [
        (
            topic.name,
            [
                NewPartitionReassignment(
                    each.partition_index, None if each.replicas is None else tuple(each.replicas)
                )
                for each in topic.partitions
            ],
        )
        for topic in body.topics
    ]

    def answer(outcome: ReassignedTopics | Refusal) -> Fields:
        if isinstance(outcome, Refusal):
            return {"error_code": outcome.code, "error_message": outcome.why, "responses": []}
        return {
            "allow_replication_factor_change": factor_may_change,
            "error_code": ErrorCode.none,
            "error_message": None,
            "responses": [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": index,
                            "error_code": ErrorCode.none if refusal is None else refusal.code,
                            "error_message": None if refusal is None else refusal.why,
                        }
                        for index, refusal in partitions
                    ],
                }
                for topic, partitions in outcome
            ],
        }

    return context.control.decide(
        request,
        lambda controller: controller.alter_partition_reassignments(
            wishes, allow_replication_factor_change=factor_may_change
        ),
        answer,
        answer,
    )
