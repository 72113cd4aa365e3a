"""Coordinators of groups and transactions come and go with the leaders of their partitions."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.model.ids import TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorLoaded:
    """This broker knows what the partition holds, and answers for it."""

    partition: TopicPartition
    leader_epoch: int
    records: int
    cause: str

    def __str__(self) -> str:
        return (
            f"coordinator of {self.partition} loaded {self.records} records in epoch "
            f"{self.leader_epoch}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorUnloaded:
    """This broker no longer answers for the partition."""

    partition: TopicPartition
    leader_epoch: int
    cause: str

    def __str__(self) -> str:
        return f"coordinator of {self.partition} of epoch {self.leader_epoch} unloaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopicMissing:
    """The topic in which coordinators keep their state could not be created: clients wait."""

    topic: str
    cause: str

    def __str__(self) -> str:
        return f"{self.topic} could not be created, and nobody can be a coordinator without it"
