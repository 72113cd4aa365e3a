"""The partitions of a topic without a cluster: it answers what a driver asks `Topics`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import Position, Positions


class Log:
    """The partitions of a topic: where each begins and ends."""

    def __init__(self, *spans: tuple[int, int], topic: str = "orders") -> None:
        self.spans = {TopicPartition(topic, index): span for index, span in enumerate(spans)}
        self.hidden: set[TopicPartition] = set()
        self.epoch = 3

    def grow(self, **ends: tuple[int, int]) -> None:
        for name, span in ends.items():
            self.spans[TopicPartition("orders", int(name.removeprefix("p")))] = span

    def partition_counts(self) -> dict[str, int]:
        return {"orders": len(self.spans.keys() - self.hidden)}

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: Position(self.spans[each][0], self.epoch) for each in self._there(partitions)}

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        return {each: Position(self.spans[each][1], self.epoch) for each in self._there(partitions)}

    def at(self, moments: Mapping[TopicPartition, int]) -> Positions:
        """Every record is older than the moment asked for."""
        return {each: Position(-1) for each in moments}

    def _there(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        asked = list(partitions)
        assert self.hidden.isdisjoint(asked), "nobody can say anything about these"
        return asked
