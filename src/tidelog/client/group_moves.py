"""Where a group's offsets are to go.

Invariant  An offset never goes outside of what its partition holds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidelog.client.blocking import Client
from tidelog.client.offsets import find_offsets, partition_bounds
from tidelog.model.ids import TopicPartition


class Move(NamedTuple):
    """One way to say where to; the others are false or None."""

    to_earliest: bool = False
    to_latest: bool = False
    to_offset: int | None = None
    to_timestamp: int | None = None
    shift_by: int | None = None


def moved(
    client: Client, topics: Iterable[str], committed: Mapping[TopicPartition, int], move: Move
) -> dict[TopicPartition, int]:
    """The new offset of every partition of the topics; only of those with one when shifting."""
    targets: dict[TopicPartition, int] = {}
    for topic in topics:
        view = client.refresh([topic]).topic(topic)
        indexes = [each.partition for each in view.partitions]
        bounds = partition_bounds(client, topic, indexes)
        found: dict[int, int] = {}
        if move.to_timestamp is not None:
            found = find_offsets(client, topic, dict.fromkeys(indexes, move.to_timestamp))
        for index, (start, end) in bounds.items():
            name = TopicPartition(topic, index)
            offset = _target(move, start, end, committed.get(name), found.get(index, -1))
            if offset is not None:
                targets[name] = min(max(offset, start), end)
    return targets


def _target(move: Move, start: int, end: int, committed: int | None, found: int) -> int | None:
    if move.to_earliest:
        return start
    if move.to_latest:
        return end
    if move.to_offset is not None:
        return move.to_offset
    if move.shift_by is not None:
        return None if committed is None else committed + move.shift_by
    return end if found < 0 else found
