"""How much of what is there a micro-batch takes.

Invariant  Every partition with records gets at least one of them, the rest in proportion to what
           waits, so no partition starves and a long one does not hold up the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import Position, Positions


def waiting(starts: Mapping[TopicPartition, Position], ends: Positions) -> int:
    """Offsets between the positions."""
    return sum(max(0, end.offset - starts[each].offset) for each, end in ends.items())


def admit(starts: Mapping[TopicPartition, Position], ends: Positions, limit: int) -> Positions:
    """Ends that are at most `limit` offsets, give or take rounding, behind the starts."""
    total = waiting(starts, ends)
    if total <= limit:
        return ends
    admitted = {}
    for each, end in ends.items():
        start = starts[each].offset
        size = max(0, end.offset - start)
        share = min(size, max(limit * size // total, 1))
        admitted[each] = Position(start + share, end.epoch)
    return admitted
