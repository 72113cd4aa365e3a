"""AlterPartitionReassignments (key 45, versions 0-1): move partitions to other brokers."""

from __future__ import annotations

from tidelog.controller.reassignment import NewPartitionReassignment, ReassignedTopics
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)


def handle(
    context: AdminContext, request: Request[AlterPartitionReassignmentsRequest]
) -> AlterPartitionReassignmentsResponse | Later:
    """Begin, change or cancel a reassignment of each partition that is named."""
    factor_may_change = request.body.allow_replication_factor_change
    topics = [
        (
            topic.name,
            [
                NewPartitionReassignment(
                    each.partition_index, None if each.replicas is None else tuple(each.replicas)
                )
                for each in topic.partitions
            ],
        )
        for topic in request.body.topics
    ]

    def answer(outcome: ReassignedTopics | Refusal) -> AlterPartitionReassignmentsResponse:
        if isinstance(outcome, Refusal):
            everywhere: ReassignedTopics = [
                (topic, [(each.partition, outcome) for each in partitions])
                for topic, partitions in topics
            ]
            return AlterPartitionReassignmentsResponse(
                error_code=outcome.code,
                error_message=outcome.why,
                responses=_responses(everywhere),
            )
        return AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=factor_may_change,
            error_message=None,
            responses=_responses(outcome),
        )

    return context.control.decide(
        request,
        lambda controller: controller.alter_partition_reassignments(
            topics, allow_replication_factor_change=factor_may_change
        ),
        answer,
        answer,
    )


def _responses(topics: ReassignedTopics) -> list[ReassignableTopicResponse]:
    return [
        ReassignableTopicResponse(
            name=topic,
            partitions=[
                ReassignablePartitionResponse(
                    partition_index=index,
                    error_code=ErrorCode.none if refusal is None else refusal.code,
                    error_message=None if refusal is None else refusal.why,
                )
                for index, refusal in partitions
            ],
        )
        for topic, partitions in topics
    ]
