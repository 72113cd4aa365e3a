"""Names that nobody knows: a refusal names what was meant, or what there is.

Invariant  The cluster is asked for all names only after it has refused one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.client.blocking import Client
    from tidelog.client.metadata import PartitionView
    from tidelog.model.errors import ErrorCode
    from tidelog.model.ids import TopicPartition

_SHOWN: Final = 20


@contextmanager
def known_topics(client: Client, names: Iterable[str] | None) -> Iterator[None]:
    """Whatever is done with these topics: a refusal because one is not there is told with help."""
    from tidelog.client.errors import NoSuchName, RequestRefused
    from tidelog.model.errors import ErrorCode

    try:
        yield
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.unknown_topic_or_partition:
            raise
        there = _topics(client)
        for name in names or ():
            if name not in there:
                raise NoSuchName(no_such("topic", name, _visible(there), refusal.code)) from refusal
        raise


@contextmanager
def known_group(client: Client, name: str) -> Iterator[None]:
    """The same for a group."""
    from tidelog.client.errors import NoSuchName, RequestRefused
    from tidelog.model.errors import ErrorCode

    try:
        yield
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.group_id_not_found:
            raise
        raise NoSuchName(no_such("group", name, group_names(client), refusal.code)) from refusal


@contextmanager
def known_transactional_id(client: Client, name: str) -> Iterator[None]:
    """The same for a transactional id."""
    from tidelog.client.errors import NoSuchName, RequestRefused
    from tidelog.client.transactions import Transactions
    from tidelog.model.errors import ErrorCode

    try:
        yield
    except RequestRefused as refusal:
        if refusal.code is not ErrorCode.transactional_id_not_found:
            raise
        there = [each.transactional_id for each in Transactions(client).list()]
        raise NoSuchName(no_such("transactional id", name, there, refusal.code)) from refusal


def partitions_of(
    client: Client, chosen: Mapping[str, Sequence[int] | None] | None
) -> dict[TopicPartition, PartitionView]:
    """The partitions of these topics, some of them or all, in order; of every topic without a
    choice. What is not there is refused with what is."""
    from tidelog.client.admin import Admin
    from tidelog.client.errors import NoSuchName
    from tidelog.model.ids import TopicPartition

    names = None if chosen is None else list(chosen)
    found: dict[TopicPartition, PartitionView] = {}
    with known_topics(client, names):
        view = Admin(client).topics(names)
        for name in sorted(view.topics) if names is None else names:
            there = {each.partition: each for each in view.topic(name).partitions}
            wanted = None if chosen is None else chosen[name]
            for index in there if wanted is None else wanted:
                if index not in there:
                    raise NoSuchName(f"no partition {name}-{index}; the topic has {len(there)}")
                found[TopicPartition(name, index)] = there[index]
    return dict(sorted(found.items()))


def topic_like(client: Client, name: str) -> str | None:
    """Of a topic that is not there, the one that may have been meant."""
    from tidelog.client.admin import Admin
    from tidelog.model.errors import ErrorCode
    from tidelog.model.nearest import nearest_name

    asked = Admin(client).topics([name]).topics.get(name)
    if asked is not None and asked.error is not ErrorCode.unknown_topic_or_partition:
        return None
    return nearest_name(name, _visible(_topics(client)))


def group_names(client: Client) -> list[str]:
    """All groups of the cluster."""
    from tidelog.client.groups import Groups

    return [each.group for each in Groups(client).list()]


def no_such(kind: str, name: str, known: Iterable[str], code: ErrorCode | None = None) -> str:
    """`no topic 'ordres'; did you mean 'orders'?`, and the protocol's word for it."""
    from tidelog.model.nearest import nearest_name

    names = sorted(known)
    meant = nearest_name(name, names)
    if meant is not None:
        hint = f"did you mean {meant!r}?"
    elif names:
        shown = [*map(repr, names[:_SHOWN]), *(["…"] if len(names) > _SHOWN else [])]
        hint = f"there is {', '.join(shown)}"
    else:
        hint = "there is none"
    return f"no {kind} {name!r}; {hint}" + ("" if code is None else f" ({code.name.upper()})")


def _topics(client: Client) -> dict[str, bool]:
    """All topics, and whether they are the brokers' own."""
    from tidelog.client.admin import Admin

    return {name: each.internal for name, each in Admin(client).topics().topics.items()}


def _visible(topics: dict[str, bool]) -> list[str]:
    return [name for name, internal in topics.items() if not internal]
