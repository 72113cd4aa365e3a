"""The topics of a cluster without a cluster: what a pipeline asks of them, a test says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import Positions


@dataclass
class MemoryTopics:
    """How many partitions topics have, where they begin, end and were at any moment."""

    counts: Mapping[str, int]
    first: Positions
    last: Positions
    then: Positions = field(default_factory=dict)

    def partition_counts(self) -> Mapping[str, int]:
        return self.counts

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: self.first[each] for each in partitions if each in self.first}

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: self.last[each] for each in partitions if each in self.last}

    def at(self, moments: Mapping[TopicPartition, int]) -> Positions:
        return {each: self.then[each] for each in moments}
