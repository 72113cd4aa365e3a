"""Server-side assignors: who reads what, for a whole group at once.

uniform  spreads partitions evenly over the members, and moves as few of them as it can
range    gives each member a run of neighbouring partitions of every topic, the same run of
         topics with equally many partitions

Invariant  Every partition of a subscribed topic is given to exactly one subscriber.
Invariant  With uniform, members of equal subscriptions differ by at most one partition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heapify, heapreplace
from types import MappingProxyType
from typing import Final, NamedTuple, TypeAlias

from tidelog.coordinator.groups.topics import IdPartition, KnownTopic

Assignment: TypeAlias = dict[str, set[IdPartition]]


class Subscriber(NamedTuple):
    """A member, and the topics it wants to read that exist."""

    member_id: str
    instance_id: str | None
    topics: tuple[KnownTopic, ...]
    before: frozenset[IdPartition]
    """What it was to have until now."""


def range_assignment(members: list[Subscriber]) -> Assignment:
    """Runs of neighbours; members in the order of their instance ids, then of their ids."""
    ordered = sorted(
        members, key=lambda each: (each.instance_id is None, each.instance_id or "", each.member_id)
    )
    assignment: Assignment = {member.member_id: set() for member in members}
    for topic in sorted({topic for member in members for topic in member.topics}):
        readers = [member for member in ordered if topic in member.topics]
        share, more = divmod(topic.partitions, len(readers))
        first = 0
        for place, reader in enumerate(readers):
            end = first + share + (place < more)
            assignment[reader.member_id].update(
                IdPartition(topic.topic_id, index) for index in range(first, end)
            )
            first = end
    return assignment


def uniform_assignment(members: list[Subscriber]) -> Assignment:
    """Even shares, with what members had before kept where that is possible."""
    if len({member.topics for member in members}) == 1:
        return _shared_alike(members)
    return _shared_as_wanted(members)


def _shared_alike(members: list[Subscriber]) -> Assignment:
    """All want the same."""
    places = [
        IdPartition(topic.topic_id, index)
        for topic in members[0].topics
        for index in range(topic.partitions)
    ]
    assignment = _kept(members, len(places))
    taken = {place for places in assignment.values() for place in places}
    shares = [(len(places), member_id) for member_id, places in assignment.items()]
    heapify(shares)
    for place in places:
        if place not in taken:
            share, member_id = shares[0]
            assignment[member_id].add(place)
            heapreplace(shares, (share + 1, member_id))
    return assignment


def _shared_as_wanted(members: list[Subscriber]) -> Assignment:
    """Partitions that few want are given first, and what is uneven then is made even."""
    readers: dict[IdPartition, list[str]] = {}
    for member in sorted(members):
        for topic in member.topics:
            for index in range(topic.partitions):
                place = IdPartition(topic.topic_id, index)
                readers.setdefault(place, []).append(member.member_id)
    assignment = _kept(members, None)
    taken = {place for places in assignment.values() for place in places}
    for place in sorted(readers.keys() - taken, key=lambda each: (len(readers[each]), each)):
        reader = min(readers[place], key=lambda member_id: len(assignment[member_id]))
        assignment[reader].add(place)
    _even_out(assignment, readers)
    return assignment


def _kept(members: list[Subscriber], partitions: int | None) -> Assignment:
    """What members had and still want.

    Where all want the same `partitions`, nobody keeps more than an even share of them.
    """
    fair, more = (0, 0) if partitions is None else divmod(partitions, len(members))
    assignment: Assignment = {}
    for member in sorted(members):
        wanted = {topic.topic_id: topic.partitions for topic in member.topics}
        still = sorted(
            place for place in member.before if place.partition < wanted.get(place.topic_id, 0)
        )
        if partitions is not None and len(still) > fair:
            has_more = more > 0
            more -= has_more
            still = still[: fair + has_more]
        assignment[member.member_id] = set(still)
    return assignment


def _even_out(assignment: Assignment, readers: Mapping[IdPartition, list[str]]) -> None:
    """Move partitions to members with at least two fewer, until there are none."""
    moved = True
    while moved:
        moved = False
        for member_id in sorted(assignment, key=lambda each: (-len(assignment[each]), each)):
            for place in sorted(assignment[member_id]):
                least = min(readers[place], key=lambda each: (len(assignment[each]), each))
                if len(assignment[member_id]) - len(assignment[least]) >= 2:
                    assignment[member_id].discard(place)
                    assignment[least].add(place)
                    moved = True


ASSIGNORS: Final[Mapping[str, Callable[[list[Subscriber]], Assignment]]] = MappingProxyType(
    {"uniform": uniform_assignment, "range": range_assignment}
)
