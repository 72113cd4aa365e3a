"""ElectLeaders (key 43, versions 0-2): preferred leaders, or unclean ones where there are none."""

from __future__ import annotations

from tidelog.controller.elections import ElectedTopics
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


def handle(
    context: AdminContext, request: Request[ElectLeadersRequest]
) -> ElectLeadersResponse | Later:
    """Hold an election in each partition that is named, or in all."""
    body = request.body
    topics = body.topic_partitions
    named = None if topics is None else [(topic.topic, topic.partitions) for topic in topics]

    def answer(outcome: ElectedTopics | Refusal) -> ElectLeadersResponse:
        if not isinstance(outcome, Refusal):
            return ElectLeadersResponse(replica_election_results=_results(outcome))
        # Version 0 has no place for one error; whoever named partitions finds it with each.
        everywhere: ElectedTopics = [
            (topic, [(index, outcome) for index in partitions]) for topic, partitions in named or ()
        ]
        return ElectLeadersResponse(
            error_code=outcome.code, replica_election_results=_results(everywhere)
        )

    return context.control.decide(
        request,
        lambda controller: controller.elect_leaders(body.election_type, named),
        answer,
        answer,
    )


def _results(topics: ElectedTopics) -> list[ReplicaElectionResult]:
    return [
        ReplicaElectionResult(
            topic=topic,
            partition_result=[
                PartitionResult(
                    partition_id=index,
                    error_code=ErrorCode.none if refusal is None else refusal.code,
                    error_message=None if refusal is None else refusal.why,
                )
                for index, refusal in partitions
            ],
        )
        for topic, partitions in topics
        if partitions
    ]
