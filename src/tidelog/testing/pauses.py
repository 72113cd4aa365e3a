"""How long a topic stands still: the longest time without a sign of life of any of its partitions.

A topic with one partition that nobody can use looks well if only the topic is looked at: the others
fill the gap. So every pause is that of a partition, and the longest counts.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import pairwise
from typing import NamedTuple


class Pause(NamedTuple):
    """A time in which nothing happened in one partition."""

    partition: int
    began: float
    """In seconds, on whatever clock the moments were taken from."""
    length_s: float


class Pauses:
    """When something happened in each partition: a record was acknowledged, or received."""

    def __init__(self, partitions: int) -> None:
        self._moments: list[list[float]] = [[] for _ in range(partitions)]

    def note(self, partition: int, at: float) -> None:
        """It happened again; the moments of a partition come in order."""
        self._moments[partition].append(at)

    @property
    def all_began(self) -> bool:
        """Whether there was a sign of life of every partition."""
        return all(self._moments)

    def all_went_on_after(self, moment: float) -> bool:
        """Whether there was one of every partition later than that."""
        return all(moments and moments[-1] > moment for moments in self._moments)

    def longest(self, since: float, until: float) -> Pause:
        """The longest pause of any partition that reaches into that time, as far as `until`."""
        return max(
            (
                Pause(partition, before, after - before)
                for partition, moments in enumerate(self._moments)
                for before, after in pairwise(_signs(list(moments), since, until))
            ),
            key=lambda pause: pause.length_s,
        )


def _signs(moments: list[float], since: float, until: float) -> list[float]:
    """From the last sign before that time, or its beginning, to its end."""
    first, end = bisect_left(moments, since), bisect_left(moments, until)
    return [*(moments[max(0, first - 1) : first] or [since]), *moments[first:end], until]
