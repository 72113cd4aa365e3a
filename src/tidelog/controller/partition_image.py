"""Topics and partitions as the metadata log describes them.

Invariant  A `PartitionImage` never changes; a change record makes a new one.
Invariant  Every change raises the partition epoch by one; the leader epoch rises by one exactly
           when the record names a leader, even the same one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.records import (
    LEADER_UNCHANGED,
    RECOVERED,
    RECOVERY_STATE_UNCHANGED,
    UnappliableRecord,
)
from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.protocol.stored.metadata import (
    PartitionChangeRecord,
    PartitionRecord,
)


class TopicIdPartition(NamedTuple):
    """One partition of one incarnation of a topic."""

    topic_id: UUID
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionImage:
    """Who holds a partition, who leads it, and which epochs it is in."""

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing: tuple[int, ...] = ()
    adding: tuple[int, ...] = ()
    leader: int
    leader_epoch: int
    partition_epoch: int
    recovery_state: int = RECOVERED
    directories: tuple[UUID, ...]
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()

    @property
    def has_leader(self) -> bool:
        return self.leader != NO_LEADER

    def directory_of(self, broker_id: int) -> UUID:
        """The log directory that holds the replica on `broker_id`, which must be one."""
        return self.directories[self.replicas.index(broker_id)]

    @classmethod
    def from_record(cls, record: PartitionRecord) -> PartitionImage:
        return cls(
            replicas=record.replicas,
            isr=record.isr,
            removing=record.removing_replicas,
            adding=record.adding_replicas,
            leader=record.leader,
            leader_epoch=record.leader_epoch,
            partition_epoch=record.partition_epoch,
            recovery_state=record.leader_recovery_state,
            directories=_directories(record.directories, record.replicas),
            elr=record.eligible_leader_replicas or (),
            last_known_elr=record.last_known_elr or (),
        )

    def to_record(self, topic_id: UUID, partition_id: int) -> PartitionRecord:
        """The record that makes this partition from nothing."""
        return PartitionRecord(
            partition_id=partition_id,
            topic_id=topic_id,
            replicas=self.replicas,
            isr=self.isr,
            removing_replicas=self.removing,
            adding_replicas=self.adding,
            leader=self.leader,
            leader_recovery_state=self.recovery_state,
            leader_epoch=self.leader_epoch,
            partition_epoch=self.partition_epoch,
            directories=self.directories,
            eligible_leader_replicas=self.elr or None,
            last_known_elr=self.last_known_elr or None,
        )

    def changed_by(self, record: PartitionChangeRecord) -> PartitionImage:
        """The partition after the change."""
        replicas = _changed(self.replicas, record.replicas)
        leads = record.leader != LEADER_UNCHANGED
        recovers = record.leader_recovery_state != RECOVERY_STATE_UNCHANGED
        directories = self.directories if record.directories is None else record.directories
        return PartitionImage(
            replicas=replicas,
            isr=_changed(self.isr, record.isr),
            removing=_changed(self.removing, record.removing_replicas),
            adding=_changed(self.adding, record.adding_replicas),
            leader=record.leader if leads else self.leader,
            leader_epoch=self.leader_epoch + leads,
            partition_epoch=self.partition_epoch + 1,
            recovery_state=record.leader_recovery_state if recovers else self.recovery_state,
            directories=_directories(directories, replicas),
            elr=_changed(self.elr, record.eligible_leader_replicas),
            last_known_elr=_changed(self.last_known_elr, record.last_known_elr),
        )


@dataclass(slots=True)
class TopicImage:
    """A topic and its partitions by index. Only the image that owns it changes it."""

    name: str
    topic_id: UUID
    partitions: dict[int, PartitionImage] = field(default_factory=dict)


def _changed(current: tuple[int, ...], change: tuple[int, ...] | None) -> tuple[int, ...]:
    return current if change is None else change


def _directories(directories: tuple[UUID, ...], replicas: tuple[int, ...]) -> tuple[UUID, ...]:
    """One directory per replica; all unknown when the record comes from before directories."""
    if all(directory == ZERO_UUID for directory in directories):
        return (ZERO_UUID,) * len(replicas)
    if len(directories) != len(replicas):
        raise UnappliableRecord(f"{len(directories)} directories for {len(replicas)} replicas")
    return directories
