"""What changed since somebody last looked, and what happened to the partitions they magnify.

Invariant  While nobody looks nothing is noted, and asking whether somebody does costs a look at one
           attribute.
Invariant  What is noted is bounded: each partition once, and the newest `HAPPENED_MAX` happenings.
"""

from __future__ import annotations

from collections import deque
from typing import Final, TypeAlias

from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now

HAPPENED_MAX: Final = 500
Told: TypeAlias = int | str | list[int] | None


class LiveWatch:
    """Shared by all replicas of a node."""

    __slots__ = (
        "_count",
        "changed",
        "dropped",
        "happened",
        "is_on",
        "magnified",
        "metadata",
        "moved",
    )

    def __init__(self) -> None:
        self.is_on = False
        """Whether somebody looks; set by whoever serves them."""
        self.magnified: frozenset[TopicPartition] = frozenset()
        self.moved: dict[TopicPartition, None] = {}
        """Replicas whose offsets moved."""
        self.changed: dict[TopicPartition, None] = {}
        """Replicas whose leader, epoch or in-sync set changed, and those that came or went."""
        self.metadata: dict[TopicPartition, None] = {}
        """Partitions of the cluster that are different in the metadata."""
        self.happened: deque[dict[str, Told]] = deque(maxlen=HAPPENED_MAX)
        self.dropped = 0
        """Happenings that made room for newer ones."""
        self._count = 0

    def forget(self) -> None:
        """Nobody looks any more."""
        self.is_on = False
        self.magnified = frozenset()
        self.moved.clear()
        self.changed.clear()
        self.metadata.clear()
        self.happened.clear()
        self.dropped = 0

    def see(self, name: TopicPartition, now: Now, what: str, **fields: Told) -> None:
        """Something happened; kept if the partition is magnified."""
        if name not in self.magnified:
            return
        self._count += 1
        self.dropped += len(self.happened) == HAPPENED_MAX
        self.happened.append(
            {
                "n": self._count,
                "at_ms": now.wall_ms,
                "what": what,
                "topic": name.topic,
                "partition": name.partition,
                **fields,
            }
        )
