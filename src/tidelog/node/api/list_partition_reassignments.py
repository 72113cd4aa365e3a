"""ListPartitionReassignments (key 46, version 0): partitions on their way to other brokers."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.controller.reassignment import OngoingTopics
from tidelog.model.errors import Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)


def handle(
    context: AdminContext, request: Request[ListPartitionReassignmentsRequest]
) -> ListPartitionReassignmentsResponse | Later:
    """What is under way in the partitions that are named, or in all."""
    topics = request.body.topics
    named = None if topics is None else [(topic.name, topic.partition_indexes) for topic in topics]
    return context.control.decide(
        request,
        lambda controller: controller.list_partition_reassignments(named),
        _answer,
        lambda refusal: _refused(named, refusal),
    )


def _answer(outcome: OngoingTopics) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(
        error_message=None,
        topics=[
            OngoingTopicReassignment(
                name=topic,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=each.partition,
                        replicas=each.replicas,
                        adding_replicas=each.adding,
                        removing_replicas=each.removing,
                    )
                    for each in partitions
                ],
            )
            for topic, partitions in outcome
        ],
    )


def _refused(
    named: Sequence[tuple[str, Sequence[int]]] | None, refusal: Refusal
) -> ListPartitionReassignmentsResponse:
    """What was named is named again, and nothing is said of it."""
    return ListPartitionReassignmentsResponse(
        error_code=refusal.code,
        error_message=refusal.why,
        topics=[
            OngoingTopicReassignment(
                name=topic,
                partitions=[
                    OngoingPartitionReassignment(partition_index=index) for index in indexes
                ],
            )
            for topic, indexes in named or ()
        ],
    )
