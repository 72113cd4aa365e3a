"""Verdicts on offsets to commit or to forget, topic by topic, put together as Kafka does.

Invariant  Every partition is answered for as often as it was named.
Invariant  So is every topic; but once a partition was refused before the coordinator was asked,
           each topic is answered for once, beginning with what was refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from tidelog.model.errors import ErrorCode
from tidelog.node.core.request import Fields


class _Verdict(NamedTuple):
    """One partition of a topic, as it was named."""

    place: int
    topic: Any
    partition_index: int
    is_refused: bool
    error_code: ErrorCode


def offset_verdicts(
    topics: Sequence[Any], refused: Iterable[ErrorCode | None], decided: Iterable[ErrorCode]
) -> Fields:
    """Verdicts in the order of the request: why a partition was refused, or what was decided."""
    verdicts = _verdicts(topics, iter(refused), iter(decided))
    if not any(verdict.is_refused for verdict in verdicts):
        return _by_topic((verdict.place, verdict) for verdict in verdicts)
    verdicts.sort(key=lambda verdict: not verdict.is_refused)
    return _by_topic((tuple(_identity(verdict.topic).values()), verdict) for verdict in verdicts)


def _verdicts(
    topics: Sequence[Any], refused: Iterator[ErrorCode | None], decided: Iterator[ErrorCode]
) -> list[_Verdict]:
    verdicts = []
    for place, topic in enumerate(topics):
        for partition in topic.partitions:
            reason = next(refused)
            code = next(decided) if reason is None else reason
            index = partition.partition_index
            verdicts.append(_Verdict(place, topic, index, reason is not None, code))
    return verdicts


def _by_topic(verdicts: Iterable[tuple[Hashable, _Verdict]]) -> Fields:
    answers: dict[Hashable, dict[str, Any]] = {}
    for key, verdict in verdicts:
        answer = answers.setdefault(key, {**_identity(verdict.topic), "partitions": []})
        told = {"partition_index": verdict.partition_index, "error_code": verdict.error_code}
        answer["partitions"].append(told)
    return {"topics": list(answers.values())}


def _identity(topic: Any) -> Fields:
    """What the request calls it: its name or, from some version on, its id."""
    return {each: getattr(topic, each) for each in ("name", "topic_id") if hasattr(topic, each)}
