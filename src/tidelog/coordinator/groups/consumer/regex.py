"""Subscriptions by regular expression, resolved by the coordinator."""

from __future__ import annotations

from functools import lru_cache

from tidelog.coordinator.groups.consumer.draft import Draft
from tidelog.coordinator.groups.consumer.expressions import Expression, MalformedExpression
from tidelog.coordinator.groups.topics import Topics
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.time import Now
from tidelog.protocol.stored.groups import (
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupRegularExpressionValue,
)


def malformed(expression: str) -> Refusal | None:
    """Why an expression cannot be used."""
    try:
        _compiled(expression)
    except MalformedExpression as error:
        why = f"SubscribedTopicRegex {expression!r} is not a valid regular expression: {error}."
        return Refusal(ErrorCode.invalid_regular_expression, why)
    return None


def resolve_all(draft: Draft, topics: Topics, now: Now) -> bool:
    """Look which topics the members' expressions match now; whether that is news."""
    group = draft.group
    used = {
        member.metadata.subscribed_topic_regex
        for member in group.members.values()
        if member.metadata.subscribed_topic_regex
    }
    news = False
    for expression in sorted(set(group.resolved) - used):
        draft.write(_key(draft, expression), None)
        news = True
    for expression in sorted(used):
        compiled = _compiled(expression)
        matched = tuple(sorted(name for name in topics.names() if compiled.matches(name)))
        known = group.resolved.get(expression)
        if known is None or known.topics != matched:
            value = ConsumerGroupRegularExpressionValue(
                topics=matched, version=topics.version, timestamp=now.wall_ms
            )
            draft.write(_key(draft, expression), value)
            news = True
    return news


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Expression:
    return Expression(expression)


def _key(draft: Draft, expression: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(
        group_id=draft.group.group_id, regular_expression=expression
    )
