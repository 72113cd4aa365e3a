"""DeleteTopics (key 20, versions 1-6): by name, and from version 6 on by id."""

from __future__ import annotations

from uuid import UUID

from tidelog.controller.topics import TopicDeletion
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import ZERO_UUID
from tidelog.node.broker_state import BrokerState
from tidelog.node.request import Fields, Reply, Request


def handle(broker: BrokerState, request: Request) -> Reply:
    """Delete every topic that exists; the others get their refusal."""
    body = request.body
    wishes: list[tuple[str | None, UUID]]
    if request.api_version >= 6:
        wishes = [(topic.name, topic.topic_id or ZERO_UUID) for topic in body.topics]
    else:
        wishes = [(name, ZERO_UUID) for name in body.topic_names]
    return broker.control.decide(
        request,
        lambda controller: controller.delete_topics(wishes),
        _answer,
        lambda refusal: _answer([TopicDeletion(*wish, refusal) for wish in wishes]),
    )


def _answer(outcome: list[TopicDeletion]) -> Fields:
    return {
        "responses": [
            {
                "name": deletion.name,
                "topic_id": deletion.topic_id,
                "error_code": ErrorCode.none if deletion.refusal is None else deletion.refusal.code,
                "error_message": None if deletion.refusal is None else deletion.refusal.why,
            }
            for deletion in outcome
        ]
    }
