"""OffsetFetch (key 9, versions 1-10): how far groups have come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby
from typing import Any, Final
from uuid import UUID

from tidelog.coordinator.groups.offset_reads import FetchedOffset, WantedOffset
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.node.broker_state import BrokerState
from tidelog.node.gathering import gather
from tidelog.node.request import Fields, Reply, Request
from tidelog.wire.messages import field

GROUP_ERROR_SINCE: Final = 2
MANY_SINCE: Final = 8
BY_ID_SINCE: Final = 10


class _Question:
    """What is asked of one group."""

    def __init__(self, broker: BrokerState, asked: Any) -> None:
        self.group_id: str = asked.group_id
        self.member_id: str | None = field(asked, "member_id", None)
        self.member_epoch: int = field(asked, "member_epoch", -1)
        self.wanted: list[WantedOffset] | None = None
        self.unknown: list[FetchedOffset] = []
        """Partitions of topic ids that nobody knows."""
        if asked.topics is not None:
            self.wanted = []
            for topic in asked.topics:
                self._ask_for(broker, topic)

    def _ask_for(self, broker: BrokerState, topic: Any) -> None:
        topic_id: UUID = field(topic, "topic_id", None) or ZERO_UUID
        name = field(topic, "name", None)
        if name is None:
            name = broker.topic_name(topic_id)
        for index in topic.partition_indexes:
            partition = TopicPartition(name or "", index)
            if name is None:
                error = ErrorCode.unknown_topic_id
                self.unknown.append(FetchedOffset(partition, topic_id, error=error))
            elif self.wanted is not None:
                self.wanted.append(WantedOffset(partition, topic_id))


def handle(broker: BrokerState, request: Request) -> Reply:
    """Answer for every group once what it tells is safe."""
    body = request.body
    asked = body.groups if request.api_version >= MANY_SINCE else [body]
    questions = [_Question(broker, each) for each in asked]
    stable_only = field(body, "require_stable", False)
    later = request.park()

    def answer(outcomes: list[list[FetchedOffset] | Refusal]) -> None:
        if request.api_version < MANY_SINCE:
            request.answer(_group(broker, request, questions[0], outcomes[0]))
            return
        groups = [
            {"group_id": question.group_id, **_group(broker, request, question, outcome)}
            for question, outcome in zip(questions, outcomes, strict=True)
        ]
        request.answer({"groups": groups})

    gather(
        questions,
        lambda question, then: broker.groups.ask(
            request.now,
            question.group_id,
            lambda shard: shard.fetch_offsets(
                question.group_id,
                question.wanted,
                stable_only=stable_only,
                member_id=question.member_id,
                member_epoch=question.member_epoch,
            ),
            then,
        ),
        answer,
    )
    return later


def _group(
    broker: BrokerState,
    request: Request,
    question: _Question,
    outcome: list[FetchedOffset] | Refusal,
) -> Fields:
    error = ErrorCode.none
    if isinstance(outcome, Refusal):
        error = outcome.code
        outcome = []
        if request.api_version < GROUP_ERROR_SINCE:
            outcome = [FetchedOffset(*each, error=error) for each in question.wanted or ()]
    return {
        "error_code": error,
        "topics": _topics(broker, request, [*outcome, *question.unknown]),
    }


def _topics(
    broker: BrokerState, request: Request, offsets: Iterable[FetchedOffset]
) -> list[Fields]:
    """Offsets by topic; by id only those whose topic still has one."""
    topics: list[Fields] = []
    for identity, group in groupby(offsets, key=lambda each: _identity(broker, request, each)):
        if identity is None:
            continue
        topics.append(
            {
                **identity,
                "partitions": [
                    {
                        "partition_index": each.partition.partition,
                        "committed_offset": each.offset,
                        "committed_leader_epoch": each.leader_epoch,
                        "metadata": each.metadata,
                        "error_code": each.error,
                    }
                    for each in group
                ],
            }
        )
    return topics


def _identity(broker: BrokerState, request: Request, fetched: FetchedOffset) -> Fields | None:
    """The topic as the version names it, whether or not its id was known at the commit."""
    name, topic_id = fetched.partition.topic, fetched.topic_id
    if request.api_version < BY_ID_SINCE:
        return {"name": name}
    if topic_id == ZERO_UUID and name:
        known = broker.image.topics_by_name.get(name)
        return None if known is None else {"topic_id": known.topic_id}
    return {"topic_id": topic_id}
