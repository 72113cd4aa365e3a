"""Topics are created by the controller."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from tidelog.controller.controller import Controller
from tidelog.controller.result import ControllerResult
from tidelog.controller.topics import CreatedTopic, NewTopic
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID
from tidelog.model.time import Now
from tidelog.node.control.calls.controller_call import ControllerCall
from tidelog.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

CreatedTopics: TypeAlias = list[tuple[str, CreatedTopic | Refusal]]


@dataclass(frozen=True, slots=True)
class CreateTopicsCall(ControllerCall[CreateTopicsResponse, CreatedTopics]):
    """Topics are to be created, for a client or for a broker's own use; each has an outcome."""

    VERSION = 7

    topics: Sequence[NewTopic]
    timeout_ms: int
    validate_only: bool = False

    def decide(
        self, controller: Controller, next_offset: int, now: Now
    ) -> ControllerResult[CreatedTopics]:
        return controller.create_topics(self.topics, validate_only=self.validate_only)

    def request(self) -> CreateTopicsRequest:
        return CreateTopicsRequest(
            topics=[
                CreatableTopic(
                    name=topic.name,
                    num_partitions=topic.partitions,
                    replication_factor=topic.replication_factor,
                    assignments=[
                        CreatableReplicaAssignment(partition_index=index, broker_ids=replicas)
                        for index, replicas in topic.assignments
                    ],
                    configs=[
                        CreatableTopicConfig(name=name, value=value)
                        for name, value in topic.configs.items()
                    ],
                )
                for topic in self.topics
            ],
            timeout_ms=self.timeout_ms,
            validate_only=self.validate_only,
        )

    @staticmethod
    def asked_in(request: CreateTopicsRequest) -> CreateTopicsCall:
        """The call behind a request."""
        topics = [
            NewTopic(
                name=topic.name,
                partitions=topic.num_partitions,
                replication_factor=topic.replication_factor,
                assignments=[(each.partition_index, each.broker_ids) for each in topic.assignments],
                configs={config.name: config.value for config in topic.configs},
            )
            for topic in request.topics
        ]
        return CreateTopicsCall(topics, request.timeout_ms, request.validate_only)

    def answer(self, outcome: CreatedTopics | Refusal) -> CreateTopicsResponse:
        if isinstance(outcome, Refusal):
            refused = [_created_message(topic.name, outcome) for topic in self.topics]
            return CreateTopicsResponse(topics=refused)
        # One that is named twice is answered for once.
        created = [_created_message(name, result) for name, result in dict(outcome).items()]
        return CreateTopicsResponse(topics=created)

    def outcome(self, answer: CreateTopicsResponse) -> CreatedTopics | Refusal:
        return [(topic.name, _created(topic)) for topic in answer.topics]


def _created_message(name: str, result: CreatedTopic | Refusal) -> CreatableTopicResult:
    if isinstance(result, Refusal):
        return CreatableTopicResult(name=name, error_code=result.code, error_message=result.why)
    return CreatableTopicResult(
        name=name,
        topic_id=result.topic_id,
        error_message=None,
        num_partitions=result.partitions,
        replication_factor=result.replication_factor,
        configs=[
            CreatableTopicConfigs(
                name=entry.name,
                value=entry.value,
                read_only=entry.read_only,
                config_source=entry.source,
                is_sensitive=entry.sensitive,
            )
            for entry in result.configs
        ],
    )


def _created(topic: CreatableTopicResult) -> CreatedTopic | Refusal:
    """The settings are left out: no node asks for them, and the answer does not explain them."""
    if topic.error_code is not ErrorCode.none:
        return Refusal(topic.error_code, topic.error_message or "")
    return CreatedTopic(
        topic.topic_id or ZERO_UUID, topic.num_partitions, topic.replication_factor, ()
    )
