"""Where a group's offsets are to go.

Invariant  An offset never goes outside of what its partition holds.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.errors import RequestRefused
from tidelog.client.offsets import find_offsets, partition_bounds
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition


class Move(NamedTuple):
    """One way to say where to; the others are false or None."""

    to_earliest: bool = False
    to_latest: bool = False
    to_current: bool = False
    to_offset: int | None = None
    to_timestamp: int | None = None
    shift_by: int | None = None
    to_given: Mapping[TopicPartition, int] | None = None


def moved(
    client: Client,
    topics: Mapping[str, Collection[int] | None],
    committed: Mapping[TopicPartition, int],
    move: Move,
) -> dict[TopicPartition, int]:
    """The new offsets of partitions of the topics, of all where none are named.

    When shifting, only those that have an offset are moved.
    """
    targets: dict[TopicPartition, int] = {}
    for topic, chosen in topics.items():
        indexes = _partitions(client, topic, chosen)
        bounds = partition_bounds(client, topic, indexes)
        found: dict[int, int] = {}
        if move.to_timestamp is not None:
            found = find_offsets(client, topic, dict.fromkeys(indexes, move.to_timestamp))
        for index, (start, end) in bounds.items():
            name = TopicPartition(topic, index)
            offset = _target(move, name, start, end, committed.get(name), found.get(index, -1))
            if offset is not None:
                targets[name] = min(max(offset, start), end)
    return targets


def _partitions(client: Client, topic: str, chosen: Collection[int] | None) -> list[int]:
    there = [each.partition for each in client.refresh([topic]).topic(topic).partitions]
    for index in chosen or ():
        if index not in there:
            why = f"the topic has partitions 0 to {len(there) - 1}"
            raise RequestRefused(
                ErrorCode.unknown_topic_or_partition, str(TopicPartition(topic, index)), why
            )
    return there if chosen is None else sorted(chosen)


def _target(
    move: Move, name: TopicPartition, start: int, end: int, committed: int | None, found: int
) -> int | None:
    if move.to_earliest:
        return start
    if move.to_latest:
        return end
    if move.to_current:
        return end if committed is None else committed
    if move.to_given is not None:
        return move.to_given.get(name)
    if move.to_offset is not None:
        return move.to_offset
    if move.shift_by is not None:
        return None if committed is None else committed + move.shift_by
    return end if found < 0 else found
