"""Verdicts on offsets to commit or to forget, topic by topic, put together as Kafka does.

Invariant  Every partition is answered for as often as it was named.
Invariant  So is every topic; but once a partition was refused before the coordinator was asked,
           each topic is answered for once, beginning with what was refused.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar

from tidelog.model.errors import ErrorCode


class NamedPartition(Protocol):
    """A partition in a request."""

    @property
    def partition_index(self) -> int: ...


class NamedTopic(Protocol):
    """A topic in a request, and its partitions."""

    @property
    def partitions(self) -> Sequence[NamedPartition]: ...


TopicT = TypeVar("TopicT", bound=NamedTopic)
PartitionT_co = TypeVar("PartitionT_co", covariant=True)


class MakePartition(Protocol[PartitionT_co]):
    """The class of a partition in one of the responses."""

    def __call__(self, *, partition_index: int, error_code: ErrorCode) -> PartitionT_co: ...


class PartitionVerdict(NamedTuple):
    """What became of one partition."""

    partition_index: int
    error_code: ErrorCode


class TopicVerdicts(NamedTuple, Generic[TopicT]):
    """A topic as the request calls it, and what became of its partitions."""

    topic: TopicT
    partitions: list[PartitionVerdict]


class _Verdict(NamedTuple, Generic[TopicT]):
    """One partition of a topic, as it was named."""

    place: int
    topic: TopicT
    partition_index: int
    is_refused: bool
    error_code: ErrorCode


def answered_partitions(
    make: MakePartition[PartitionT_co], verdicts: Iterable[PartitionVerdict]
) -> list[PartitionT_co]:
    """The partitions of a topic in a response."""
    return [make(partition_index=index, error_code=error) for index, error in verdicts]


def offset_verdicts(
    topics: Sequence[TopicT],
    identity: Callable[[TopicT], Hashable],
    refused: Iterable[ErrorCode | None],
    decided: Iterable[ErrorCode],
) -> list[TopicVerdicts[TopicT]]:
    """Verdicts in the order of the request: why a partition was refused, or what was decided.

    `identity` is what a topic goes by, its name or its id.
    """
    verdicts = _verdicts(topics, iter(refused), iter(decided))
    if not any(verdict.is_refused for verdict in verdicts):
        return _by_topic((verdict.place, verdict) for verdict in verdicts)
    verdicts.sort(key=lambda verdict: not verdict.is_refused)
    return _by_topic((identity(verdict.topic), verdict) for verdict in verdicts)


def _verdicts(
    topics: Sequence[TopicT], refused: Iterator[ErrorCode | None], decided: Iterator[ErrorCode]
) -> list[_Verdict[TopicT]]:
    verdicts = []
    for place, topic in enumerate(topics):
        for partition in topic.partitions:
            reason = next(refused)
            code = next(decided) if reason is None else reason
            index = partition.partition_index
            verdicts.append(_Verdict(place, topic, index, reason is not None, code))
    return verdicts


def _by_topic(
    verdicts: Iterable[tuple[Hashable, _Verdict[TopicT]]],
) -> list[TopicVerdicts[TopicT]]:
    answers: dict[Hashable, TopicVerdicts[TopicT]] = {}
    for key, verdict in verdicts:
        answer = answers.setdefault(key, TopicVerdicts(verdict.topic, []))
        answer.partitions.append(PartitionVerdict(verdict.partition_index, verdict.error_code))
    return list(answers.values())
