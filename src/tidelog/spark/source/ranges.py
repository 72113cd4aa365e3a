"""What one task reads: a half-open range of offsets of one partition.

Invariant  The ranges of a query cover each partition's [start, end) exactly once, in order, so a
           task that is run again reads the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final

from pyspark.sql.datasource import InputPartition

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import NO_EPOCH, Position

_WORTH_A_TASK: Final = 50_000
"""Records below which another task costs more than it gains."""


class OffsetRange(InputPartition):
    """Offsets [start, end) of one partition, and the leader epoch known at `start`."""

    def __init__(
        self, partition: TopicPartition, start: int, end: int, epoch: int = NO_EPOCH
    ) -> None:
        self.partition = partition
        self.start = start
        self.end = end
        self.epoch = epoch

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OffsetRange) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((self.partition, self.start, self.end, self.epoch))

    def __len__(self) -> int:
        return self.end - self.start

    def split(self, parts: int) -> list[OffsetRange]:
        """`parts` ranges of nearly the same length; fewer when there are fewer offsets."""
        count = max(1, min(parts, len(self)))
        edges = [self.start + len(self) * index // count for index in range(count + 1)]
        return [
            OffsetRange(self.partition, low, high, self.epoch if low == self.start else NO_EPOCH)
            for low, high in pairwise(edges)
        ]


def ranges_between(
    starts: Mapping[TopicPartition, Position], ends: Mapping[TopicPartition, Position]
) -> list[OffsetRange]:
    """The non-empty ranges from start to end, in the order of partitions."""
    return [
        OffsetRange(each, starts[each].offset, end.offset, starts[each].epoch)
        for each, end in sorted(ends.items())
        if each in starts and starts[each].offset < end.offset
    ]


def split_ranges(
    ranges: Iterable[OffsetRange], *, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Cut so that no range is above `max_records` and, if it can be, there are enough of them.

    Large ranges are cut first and more often: the share of a range in the records decides how
    many of the `min_partitions` it gets. Without a number, one large partition still uses all
    cores.
    """
    whole = list(ranges)
    if max_records is not None:
        whole = [part for each in whole for part in each.split(-(-len(each) // max_records))]
    total = sum(map(len, whole))
    wanted = min_partitions or min(os.cpu_count() or 1, total // _WORTH_A_TASK)
    if len(whole) >= wanted or total == 0:
        return whole
    return [part for each in whole for part in each.split(-(-len(each) * wanted // total))]
