"""ElectLeaders (key 43, versions 0-2): preferred leaders, or unclean ones where there are none."""

from __future__ import annotations

from typing import Any

from tidelog.controller.elections import ElectedTopics, ElectionType
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.node.api.contexts import AdminContext
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field


def handle(context: AdminContext, request: Request[Any]) -> Reply:
    """Hold an election in each partition that is named, or in all."""
    body = request.body
    named = body.topic_partitions
    wishes = None if named is None else [(topic.topic, topic.partitions) for topic in named]
    kind = field(body, "election_type", ElectionType.PREFERRED)

    def answer(outcome: ElectedTopics | Refusal) -> Fields:
        if not isinstance(outcome, Refusal):
            return {"error_code": ErrorCode.none, "replica_election_results": _results(outcome)}
        # Version 0 has no place for one error; whoever named partitions finds it with each.
        everywhere: ElectedTopics = [
            (topic, [(index, outcome) for index in partitions])
            for topic, partitions in wishes or ()
        ]
        return {"error_code": outcome.code, "replica_election_results": _results(everywhere)}

    return context.control.decide(
        request, lambda controller: controller.elect_leaders(kind, wishes), answer, answer
    )


def _results(topics: ElectedTopics) -> list[dict[str, Any]]:
    return [
        {
            "topic": topic,
            "partition_result": [
                {
                    "partition_id": index,
                    "error_code": ErrorCode.none if refusal is None else refusal.code,
                    "error_message": None if refusal is None else refusal.why,
                }
                for index, refusal in partitions
            ],
        }
        for topic, partitions in topics
        if partitions
    ]
