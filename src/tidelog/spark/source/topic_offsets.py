"""What is asked about the topics of a cluster before anything is read: the port to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from tidelog.model.ids import TopicPartition
from tidelog.spark.source.offsets import Positions


class TopicOffsets(Protocol):
    """Topics with their partitions, and where those begin and end."""

    def partition_counts(self) -> Mapping[str, int]:
        """Every topic with its number of partitions."""

    def earliest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The first record that is still there."""

    def latest(self, partitions: Iterable[TopicPartition]) -> Positions:
        """The end that a reader may see."""

    def at(self, moments: Mapping[TopicPartition, int]) -> Positions:
        """The first record that is not older; offset `NO_RECORD` where there is none."""
