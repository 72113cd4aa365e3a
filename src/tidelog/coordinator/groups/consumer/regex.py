"""Subscriptions by regular expression, resolved by the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from tidelog.coordinator.groups.consumer.expressions import Expression, MalformedExpression
from tidelog.coordinator.groups.consumer.group_update import ConsumerGroupUpdate
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


def resolve_all(
    update: ConsumerGroupUpdate,
    topics: Topics,
    now: Now,
    may_describe: Callable[[str], bool] | None,
) -> bool:
    """Look which topics the members' expressions match now; whether that is news.

    What the member that is heard may not describe is as if it were not there.
    """
    group = update.group
    used = {
        member.metadata.subscribed_topic_regex
        for member in group.members.values()
        if member.metadata.subscribed_topic_regex
    }
    news = False
    for expression in sorted(set(group.resolved) - used):
        update.write(_key(update, expression), None)
        news = True
    for expression in sorted(used):
        compiled = _compiled(expression)
        matched = tuple(
            sorted(
                name
                for name in topics.names()
                if compiled.matches(name) and (may_describe is None or may_describe(name))
            )
        )
        known = group.resolved.get(expression)
        if known is None or known.topics != matched:
            value = ConsumerGroupRegularExpressionValue(
                topics=matched, version=topics.version, timestamp=now.wall_ms
            )
            update.write(_key(update, expression), value)
            news = True
    return news


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Expression:
    return Expression(expression)


def _key(update: ConsumerGroupUpdate, expression: str) -> ConsumerGroupRegularExpressionKey:
    return ConsumerGroupRegularExpressionKey(
        group_id=update.group.group_id, regular_expression=expression
    )
