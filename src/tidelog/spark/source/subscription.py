"""Which partitions a query reads: topics by name, by pattern, or partitions one by one."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import NamedTuple

from tidelog.model.ids import INTERNAL_TOPICS, TopicPartition
from tidelog.spark.errors import OptionError, SourceError

_EXAMPLE = '{"orders": [0, 1]}'


class Subscription(NamedTuple):
    """Exactly one of the three is set."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def choose(self, existing: Mapping[str, int]) -> list[TopicPartition]:
        """The partitions to read, given every topic with its number of partitions."""
        if self.partitions:
            for each in self.partitions:
                _require(each.topic, existing)
                if each.partition >= existing[each.topic]:
                    raise SourceError(
                        f"assign: {each.topic} has {existing[each.topic]} partitions, "
                        f"there is no partition {each.partition}"
                    )
            return sorted(self.partitions)
        if self.pattern is None:
            for topic in self.topics:
                _require(topic, existing)
            chosen = list(self.topics)
        else:
            # As for every consumer, a pattern does not reach the brokers' own topics.
            visible = existing.keys() - INTERNAL_TOPICS
            chosen = [name for name in visible if re.fullmatch(self.pattern, name)]
        return sorted(
            TopicPartition(topic, index) for topic in chosen for index in range(existing[topic])
        )


def parse_subscription(given: Mapping[str, str]) -> Subscription:
    """`subscribe`, `subscribePattern` or `assign`, and only one of them."""
    present = [name for name in ("subscribe", "subscribePattern", "assign") if name in given]
    if not present:
        raise OptionError("nothing to read: set subscribe to a topic, or subscribePattern, assign")
    if len(present) > 1:
        raise OptionError(f"{' and '.join(present)} contradict each other: keep one of them")
    (name,) = present
    text = given[name].strip()
    if name == "subscribe":
        topics = tuple(filter(None, re.split(r"\s*,\s*", text)))
        if not topics:
            raise OptionError("subscribe names no topic")
        return Subscription(topics=topics)
    if name == "subscribePattern":
        try:
            re.compile(text)
        except re.error as error:
            raise OptionError(f"subscribePattern {text!r} is not a pattern: {error}") from None
        return Subscription(pattern=text)
    return Subscription(partitions=_parse_assign(text))


def _parse_assign(text: str) -> tuple[TopicPartition, ...]:
    wrong = OptionError(f"assign: {text!r} is not {_EXAMPLE}")
    try:
        parsed = json.loads(text)
    except ValueError:
        raise wrong from None
    if not isinstance(parsed, dict) or not parsed:
        raise wrong
    found = []
    for topic, indexes in parsed.items():
        if not isinstance(indexes, list) or not all(isinstance(each, int) for each in indexes):
            raise wrong
        found += [TopicPartition(topic, index) for index in indexes]
    return tuple(sorted(set(found)))


def _require(topic: str, existing: Mapping[str, int]) -> None:
    if topic not in existing:
        known = ", ".join(sorted(existing)[:20]) or "none"
        raise SourceError(f"there is no topic {topic}; create it first. Topics there are: {known}")
