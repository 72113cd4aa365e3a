"""OffsetFetch (key 9, versions 1-10): how far groups have come."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby, islice
from typing import Any, Final
from uuid import UUID

from tidelog.coordinator.groups.offset_reads import FetchedOffset, RequestedOffset
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.gathering import gather
from tidelog.node.core.request import Fields, Reply, Request
from tidelog.protocol.entity_messages import field

GROUP_ERROR_SINCE: Final = 2
MANY_SINCE: Final = 8
BY_ID_SINCE: Final = 10


class _Question:
    """What is asked of one group."""

    def __init__(self, context: GroupsContext, asked: Any) -> None:
        self.group_id: str = asked.group_id
        self.member_id: str | None = field(asked, "member_id", None)
        self.member_epoch: int = field(asked, "member_epoch", -1)
        self._topics: list[list[RequestedOffset]] | None = None
        """As they were named; None when all that the group has are asked for."""
        self._unknown: list[list[FetchedOffset]] = []
        """Partitions of topic ids that nobody knows."""
        if asked.topics is not None:
            self._topics = []
            for topic in asked.topics:
                self._ask_for(self._topics, context, topic)

    def _ask_for(
        self, topics: list[list[RequestedOffset]], context: GroupsContext, topic: Any
    ) -> None:
        topic_id: UUID = field(topic, "topic_id", None) or ZERO_UUID
        name = field(topic, "name", None)
        if name is None:
            name = context.cluster.topic_name(topic_id)
        partitions = [TopicPartition(name or "", index) for index in topic.partition_indexes]
        if name is None:
            error = ErrorCode.unknown_topic_id
            self._unknown.append(
                [FetchedOffset(each, topic_id, error=error) for each in partitions]
            )
        else:
            topics.append([RequestedOffset(each, topic_id) for each in partitions])

    @property
    def wanted(self) -> list[RequestedOffset] | None:
        """The partitions that the coordinator is asked for; None for all it knows."""
        return None if self._topics is None else list(chain.from_iterable(self._topics))

    def by_topic(self, outcome: Iterable[FetchedOffset]) -> list[list[FetchedOffset]]:
        """The coordinator's answer, topic by topic as they were named; then the unknown ones."""
        rest = iter(outcome)
        if self._topics is None:
            return [list(rest)]
        return [*(list(islice(rest, len(topic))) for topic in self._topics), *self._unknown]


def handle(context: GroupsContext, request: Request[Any]) -> Reply:
    """Answer for every group once what it tells is safe."""
    body = request.body
    asked = body.groups if request.api_version >= MANY_SINCE else [body]
    questions = [_Question(context, each) for each in asked]
    stable_only = field(body, "require_stable", False)
    later = request.park()

    def answer(outcomes: list[list[FetchedOffset] | Refusal]) -> None:
        if request.api_version < MANY_SINCE:
            request.answer(_group(context, request, questions[0], outcomes[0]))
            return
        groups = [
            {"group_id": question.group_id, **_group(context, request, question, outcome)}
            for question, outcome in zip(questions, outcomes, strict=True)
        ]
        request.answer({"groups": groups})

    gather(
        questions,
        lambda question, then: context.groups.ask(
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
    context: GroupsContext,
    request: Request[Any],
    question: _Question,
    outcome: list[FetchedOffset] | Refusal,
) -> Fields:
    error = ErrorCode.none
    if isinstance(outcome, Refusal):
        if request.api_version >= GROUP_ERROR_SINCE:
            return {"error_code": outcome.code, "topics": []}
        error = outcome.code
        outcome = [FetchedOffset(*each, error=error) for each in question.wanted or ()]
    return {
        "error_code": error,
        "topics": [
            {**identity, "partitions": [_partition(each) for each in offsets]}
            for topic in question.by_topic(outcome)
            for identity, offsets in groupby(topic, lambda each: _identity(context, request, each))
            if identity
        ],
    }


def _identity(context: GroupsContext, request: Request[Any], fetched: FetchedOffset) -> Fields:
    """What a topic goes by; nothing if that is an id, and it has none any more."""
    name = fetched.partition.topic
    if request.api_version < BY_ID_SINCE:
        return {"name": name}
    if fetched.topic_id != ZERO_UUID or not name:
        return {"topic_id": fetched.topic_id}
    known = context.cluster.image.topics_by_name.get(name)
    return {} if known is None else {"topic_id": known.topic_id}


def _partition(fetched: FetchedOffset) -> Fields:
    return {
        "partition_index": fetched.partition.partition,
        "committed_offset": fetched.offset,
        "committed_leader_epoch": fetched.leader_epoch,
        "metadata": fetched.metadata,
        "error_code": fetched.error,
    }
