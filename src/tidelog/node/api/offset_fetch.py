"""OffsetFetch (key 9, versions 1-10): how far groups have come.

Versions below 8 ask for one group: they are read as the one group of a later version, and its
answer is put into their form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain, groupby, islice
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.coordinator.groups.offset_reads import FetchedOffset, RequestedOffset
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import ZERO_UUID, TopicPartition
from tidelog.node.api.contexts import GroupsContext
from tidelog.node.core.authorization import GROUP_DENIED
from tidelog.node.core.promise import gather
from tidelog.node.core.request import Later, Request
from tidelog.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from tidelog.security.acls import AclOperation, ResourceType

GROUP_ERROR_SINCE: Final = 2
MANY_SINCE: Final = 8
BY_ID_SINCE: Final = 10


class _Question:
    """What is asked of one group."""

    def __init__(
        self,
        context: GroupsContext,
        request: Request[OffsetFetchRequest],
        asked: OffsetFetchRequestGroup,
        *,
        by_id: bool,
    ) -> None:
        self.group_id = asked.group_id
        self.member_id = asked.member_id
        self.member_epoch = asked.member_epoch
        self._topics: list[list[RequestedOffset]] | None = None
        """As they were named; None when all that the group has are asked for."""
        self._refused: list[list[FetchedOffset]] = []
        """Partitions of topic ids that nobody knows, and of topics that may not be described."""
        authorization = context.authorization
        self.is_denied = not authorization.allows(
            request, AclOperation.DESCRIBE, ResourceType.GROUP, asked.group_id
        )
        self.may_describe = partial(
            authorization.allows, request, AclOperation.DESCRIBE, ResourceType.TOPIC
        )
        if asked.topics is not None:
            self._topics = []
            for topic in asked.topics:
                topic_id = topic.topic_id or ZERO_UUID
                name = context.cluster.topic_name(topic_id) if by_id else topic.name
                self._ask_for(self._topics, name, topic_id, topic.partition_indexes)

    def _ask_for(
        self,
        topics: list[list[RequestedOffset]],
        name: str | None,
        topic_id: UUID,
        partition_indexes: Iterable[int],
    ) -> None:
        partitions = [TopicPartition(name or "", index) for index in partition_indexes]
        if name is None or not (self.is_denied or self.may_describe(name)):
            error = ErrorCode.topic_authorization_failed
            if name is None:
                error = ErrorCode.unknown_topic_id
            self._refused.append(
                [FetchedOffset(each, topic_id, error=error) for each in partitions]
            )
        else:
            topics.append([RequestedOffset(each, topic_id) for each in partitions])

    @property
    def wanted(self) -> list[RequestedOffset] | None:
        """The partitions that the coordinator is asked for; None for all it knows."""
        return None if self._topics is None else list(chain.from_iterable(self._topics))

    def by_topic(self, outcome: Iterable[FetchedOffset]) -> list[list[FetchedOffset]]:
        """The coordinator's answer, topic by topic as they were named; then the refused ones.

        Of all that a group has, what may not be described is left out.
        """
        rest = iter(outcome)
        if self._topics is None:
            seen = [each for each in rest if self.may_describe(each.partition.topic, quietly=True)]
            return [seen]
        return [*(list(islice(rest, len(topic))) for topic in self._topics), *self._refused]


def handle(
    context: GroupsContext, request: Request[OffsetFetchRequest]
) -> OffsetFetchResponse | Later:
    """Answer for every group once what it tells is safe."""
    by_id = request.api_version >= BY_ID_SINCE
    questions = [_Question(context, request, group, by_id=by_id) for group in _groups(request)]
    later = request.park()

    def answer(outcomes: list[list[FetchedOffset] | Refusal]) -> None:
        groups = [
            _group(context, request, question, outcome)
            for question, outcome in zip(questions, outcomes, strict=True)
        ]
        if request.api_version >= MANY_SINCE:
            request.answer(OffsetFetchResponse(groups=groups))
        else:
            request.answer(_of_one_group(groups[0]))

    def ask(question: _Question, then: Callable[[list[FetchedOffset] | Refusal], None]) -> None:
        if question.is_denied:
            then(GROUP_DENIED)
            return
        context.groups.ask(
            request.now,
            question.group_id,
            lambda shard: shard.fetch_offsets(
                question.group_id,
                question.wanted,
                stable_only=request.body.require_stable,
                member_id=question.member_id,
                member_epoch=question.member_epoch,
            ),
            then,
        )

    gather(questions, ask, answer)
    return later


def _groups(request: Request[OffsetFetchRequest]) -> Sequence[OffsetFetchRequestGroup]:
    body = request.body
    if request.api_version >= MANY_SINCE:
        return body.groups
    topics = None
    if body.topics is not None:
        topics = [
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in body.topics
        ]
    return [OffsetFetchRequestGroup(group_id=body.group_id, topics=topics)]


def _group(
    context: GroupsContext,
    request: Request[OffsetFetchRequest],
    question: _Question,
    outcome: list[FetchedOffset] | Refusal,
) -> OffsetFetchResponseGroup:
    error = ErrorCode.none
    if isinstance(outcome, Refusal):
        error = outcome.code
        if request.api_version >= GROUP_ERROR_SINCE:
            return OffsetFetchResponseGroup(group_id=question.group_id, error_code=error)
        outcome = [FetchedOffset(*each, error=error) for each in question.wanted or ()]
    by_id = request.api_version >= BY_ID_SINCE
    return OffsetFetchResponseGroup(
        group_id=question.group_id,
        error_code=error,
        topics=[
            OffsetFetchResponseTopics(
                name=identity.name,
                topic_id=identity.topic_id,
                partitions=[_partition(each) for each in offsets],
            )
            for topic in question.by_topic(outcome)
            for identity, offsets in groupby(
                topic, lambda each: _topic_id(context, each) if by_id else _topic_name(each)
            )
            if identity is not None
        ],
    )


class _Identity(NamedTuple):
    """What a topic goes by in an answer."""

    name: str = ""
    topic_id: UUID | None = None


def _topic_name(fetched: FetchedOffset) -> _Identity:
    return _Identity(name=fetched.partition.topic)


def _topic_id(context: GroupsContext, fetched: FetchedOffset) -> _Identity | None:
    """None for a topic that has no id any more."""
    name = fetched.partition.topic
    if fetched.topic_id != ZERO_UUID or not name:
        return _Identity(topic_id=fetched.topic_id)
    known = context.cluster.image.topics_by_name.get(name)
    return None if known is None else _Identity(topic_id=known.topic_id)


def _partition(fetched: FetchedOffset) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=fetched.partition.partition,
        committed_offset=fetched.offset,
        committed_leader_epoch=fetched.leader_epoch,
        metadata=fetched.metadata,
        error_code=fetched.error,
    )


def _of_one_group(group: OffsetFetchResponseGroup) -> OffsetFetchResponse:
    """The answer in the form of the versions that ask for one group."""
    return OffsetFetchResponse(
        error_code=group.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in group.topics
        ],
    )
