"""What a replica did or saw: roles, the in-sync replicas as their leader knows them, the high
watermark.

Invariant  The high watermark is announced when a role or the in-sync replicas change, not for
           every append.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.model.ids import NO_LEADER, TopicPartition


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionBecameFollower:
    """This node follows the leader of a new epoch; with leader -1 it waits for one."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    end_offset: int
    cause: str

    def __str__(self) -> str:
        follows = "waits for a leader" if self.leader == NO_LEADER else f"follows {self.leader}"
        return f"{self.partition} {follows} in epoch {self.leader_epoch} from {self.end_offset}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerCaughtUp:
    """For the first time in an epoch this follower holds all that its leader has."""

    partition: TopicPartition
    leader: int
    leader_epoch: int
    end_offset: int
    cause: str

    def __str__(self) -> str:
        return (
            f"{self.partition} caught up with {self.leader} in epoch {self.leader_epoch} "
            f"at offset {self.end_offset}"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplicasProposed:
    """This leader asks the controller for another in-sync set; both count until it answers."""

    partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[int, ...]
    proposed: tuple[int, ...]
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} in sync: {_ids(self.in_sync)}, proposed: {_ids(self.proposed)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class InSyncReplicasChanged:
    """This leader goes by another in-sync set."""

    partition: TopicPartition
    leader_epoch: int
    partition_epoch: int
    in_sync: tuple[int, ...]
    in_sync_before: tuple[int, ...]
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} in sync: {_ids(self.in_sync)} after {_ids(self.in_sync_before)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class HighWatermarkMoved:
    """The high watermark of this leader moved: its role or the in-sync replicas changed."""

    partition: TopicPartition
    leader_epoch: int
    before: int
    after: int
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} high watermark moved from {self.before} to {self.after}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FetcherStuck:
    """A follower could not use what its leader answered; it asks again later, if at all."""

    partition: TopicPartition
    leader: int
    cause: str

    def __str__(self) -> str:
        return f"{self.partition} cannot follow {self.leader} for now"


def _ids(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, broker_ids))
