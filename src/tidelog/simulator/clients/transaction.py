"""One transaction of a simulated producer, as the producer itself knows it.

Invariant  Every value is written once on purpose, in one partition of one transaction.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidelog.model.ids import TopicPartition


@dataclass(slots=True, eq=False)
class SimulatedTransaction:
    """What it writes where, how it is to end, and what the producer was told of that."""

    values: Mapping[TopicPartition, Sequence[bytes]]
    commits: bool
    has_asked_to_commit: bool = False
    is_promised: bool = False
    """The coordinator said that it ended as wished."""
    offsets: Mapping[TopicPartition, int] = field(default_factory=dict)
    """What a group has read once this commits."""
    due: set[TopicPartition] = field(init=False)
    """Partitions that are still to take their values."""

    def __post_init__(self) -> None:
        self.due = set(self.values)
