"""Who leads: what happens to partitions when brokers come, go, or lose a directory.

Invariant  Changes of one decision see each other: a partition that is changed twice is changed
           from where the first change left it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.controller.partition_change import (
    Election,
    ElectionResult,
    ElectionRules,
    PartitionTarget,
    changed,
)
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition, TopicImage
from tidelog.controller.registrations import BrokerRegistration
from tidelog.controller.result import Cause, IsrChange, PartitionLeaderChange
from tidelog.model.config import NodeConfig
from tidelog.model.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER, ZERO_UUID
from tidelog.model.settings.effective import BrokerLayers, effective_topic_value
from tidelog.model.settings.topic import TopicSettings
from tidelog.protocol.stored.metadata import PartitionChangeRecord

ELR_FEATURE: Final = "eligible.leader.replicas.version"
FIRST_FREE_DIRECTORY: Final = 100
"""Directory ids below are reserved words."""


class HostedPartition(NamedTuple):
    """A partition where it stands in the image."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


class PartitionLeadership:
    """Changes partitions by looking at an image, for one decision, and remembers why."""

    def __init__(
        self, image: ClusterImage, config: NodeConfig, hard_to_reach: Collection[int] = ()
    ) -> None:
        """`hard_to_reach` are brokers that are elected only where there is no other."""
        self._image = image
        self._hard_to_reach = hard_to_reach
        self._layers = BrokerLayers(
            image.config(BROKER_CONFIG, str(config.node_id)),
            image.config(BROKER_CONFIG, ""),
            config,
        )
        self._elr = elr_enabled(image)
        self._rules: dict[UUID, ElectionRules] = {}
        self._changed: dict[TopicIdPartition, PartitionImage] = {}
        self._causes: list[Cause] = []

    @property
    def causes(self) -> tuple[Cause, ...]:
        """Why leaders and in-sync sets are as they are after the changes so far."""
        return tuple(self._causes)

    def rules(self, topic: TopicImage) -> ElectionRules:
        """The rules of one topic; its minimum ISR is never more than it has replicas."""
        known = self._rules.get(topic.topic_id)
        if known is None:
            known = self._rules[topic.topic_id] = self._rules_of(topic)
        return known

    def _rules_of(self, topic: TopicImage) -> ElectionRules:
        overrides = self._image.config(TOPIC_CONFIG, topic.name)
        minimum = effective_topic_value(TopicSettings.min_insync_replicas, overrides, self._layers)
        return ElectionRules(
            min_isr=min(minimum, len(topic.partitions[0].replicas)),
            minimum=minimum,
            elr=self._elr,
            unclean=effective_topic_value(
                TopicSettings.unclean_leader_election_enable, overrides, self._layers
            ),
        )

    # -- finding -------------------------------------------------------------------------------

    def find(self, topic: TopicImage, partition_id: int) -> HostedPartition | None:
        """A partition as the changes so far leave it."""
        partition = topic.partitions.get(partition_id)
        if partition is None:
            return None
        key = TopicIdPartition(topic.topic_id, partition_id)
        return HostedPartition(topic, partition_id, self._changed.get(key, partition))

    def everywhere(self) -> Iterator[HostedPartition]:
        """All partitions in the order of their names."""
        for _, topic in sorted(self._image.topics_by_name.items()):
            for partition_id in sorted(topic.partitions):
                place = self.find(topic, partition_id)
                if place is not None:
                    yield place

    def hosted_by(self, broker_id: int) -> Iterator[HostedPartition]:
        """The partitions with a replica on a broker."""
        for topic, partition_id, _ in self._image.partitions_of(broker_id):
            place = self.find(topic, partition_id)
            if place is not None:
                yield place

    def leads_anything(self, broker_id: int) -> bool:
        """Whether the broker leads a partition."""
        return any(place.partition.leader == broker_id for place in self.hosted_by(broker_id))

    def may_lead(self, place: HostedPartition, broker_id: int) -> bool:
        """Whether a broker is fit to lead a partition, in sync or not."""
        return self._may_lead(place.partition, broker_id, lambda broker: broker.active)

    # -- brokers that come and go --------------------------------------------------------------

    def leaves_isrs(self, broker_id: int, why: str) -> list[PartitionChangeRecord]:
        """The broker goes out of every ISR and leads nothing, but its data stays eligible."""
        return self.leaves(broker_id, self.hosted_by(broker_id), why)

    def leaves(
        self, broker_id: int, partitions: Iterable[HostedPartition], why: str
    ) -> list[PartitionChangeRecord]:
        """The broker goes out of the ISRs of some partitions."""
        in_sync = (place for place in partitions if broker_id in place.partition.isr)
        return self._depart(broker_id, in_sync, why)

    def leaves_for_good(self, broker_id: int, why: str) -> list[PartitionChangeRecord]:
        """The broker goes out of every ISR and ELR: its data can no longer be relied upon."""
        return self._depart(broker_id, self.hosted_by(broker_id), why, lost=broker_id)

    def _depart(
        self,
        leaving: int,
        partitions: Iterable[HostedPartition],
        why: str,
        lost: int = NO_LEADER,
    ) -> list[PartitionChangeRecord]:
        records = []
        for place in partitions:
            partition = place.partition
            if leaving not in partition.isr and leaving not in partition.elr:
                continue
            isr = tuple(member for member in partition.isr if member != leaving)
            record = self.change(
                place,
                PartitionTarget.of(partition).with_isr(isr),
                why,
                acceptable=lambda broker: broker.broker_id != leaving and broker.active,
                lost=lost,
            )
            if record is not None:
                records.append(record)
        return records

    def comes(self, broker_id: int, why: str) -> list[PartitionChangeRecord]:
        """The broker is about to be unfenced: it may lead partitions that have no leader."""
        records = []
        for place in self.hosted_by(broker_id):
            if place.partition.has_leader:
                continue
            record = self.change(
                place,
                PartitionTarget.of(place.partition),
                why,
                acceptable=lambda broker: (
                    not broker.in_controlled_shutdown
                    and (broker.broker_id == broker_id or broker.active)
                ),
            )
            if record is not None:
                records.append(record)
        return records

    def replaces_directories(
        self, broker_id: int, directories: Collection[UUID], why: str
    ) -> list[PartitionChangeRecord]:
        """The broker comes back with other directories: replicas in those that are gone start anew.

        One that is still in sync, being the last of its ISR, stays where it was: offline.
        """
        affected = [
            place
            for place in self.hosted_by(broker_id)
            if (directory := place.partition.directory_of(broker_id)) not in directories
            and directory.int >= FIRST_FREE_DIRECTORY
        ]
        records = self._depart(broker_id, affected, why, lost=broker_id)
        new = only_directory(directories)
        for topic, partition_id, _ in affected:
            place = self.find(topic, partition_id)
            if place is None or broker_id in place.partition.isr:
                continue
            records.append(self._moved(place, broker_id, new, why))
        return records

    def lies_in(
        self, broker_id: int, place: HostedPartition, directory_id: UUID
    ) -> list[PartitionChangeRecord]:
        """A replica is in that directory, so that it may lead what nobody leads."""
        why = f"broker {broker_id} has its replica in another directory"
        moved = self._moved(place, broker_id, directory_id, why)
        found = self.find(place.topic, place.partition_id)
        if found is None or found.partition.has_leader:
            return [moved]
        elected = self.change(found, PartitionTarget.of(found.partition), why)
        return [moved] if elected is None else [moved, elected]

    def _moved(
        self, place: HostedPartition, broker_id: int, directory_id: UUID, why: str
    ) -> PartitionChangeRecord:
        topic, partition_id, partition = place
        moved = PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition_id=partition_id,
            directories=tuple(
                directory_id if replica == broker_id else directory
                for replica, directory in zip(
                    partition.replicas, partition.directories, strict=True
                )
            ),
        )
        self._note(place, moved, why, ElectionResult(partition.leader, ""))
        return moved

    # -- one partition -------------------------------------------------------------------------

    def change(
        self,
        place: HostedPartition,
        target: PartitionTarget,
        why: str,
        *,
        election: Election | None = None,
        acceptable: Callable[[BrokerRegistration], bool] = lambda broker: broker.active,
        lost: int = NO_LEADER,
    ) -> PartitionChangeRecord | None:
        """Bring a partition to a target, with the leader that follows from it."""
        topic, partition_id, partition = place
        rules = self.rules(topic)
        change = changed(
            partition,
            PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition_id),
            target,
            rules=rules,
            election=election or rules.election,
            may_lead=lambda broker_id: self._may_lead(partition, broker_id, acceptable),
            directory_for=self._directory_for,
            lost=lost,
            hard_to_reach=self._hard_to_reach,
        )
        if change is None:
            return None
        self._note(place, change.record, why, change.choice)
        return change.record

    def _may_lead(
        self,
        partition: PartitionImage,
        broker_id: int,
        acceptable: Callable[[BrokerRegistration], bool],
    ) -> bool:
        broker = self._image.brokers.get(broker_id)
        return (
            broker is not None
            and acceptable(broker)
            and broker_id in partition.replicas
            and directory_is_online(partition.directory_of(broker_id), broker)
        )

    def _directory_for(self, broker_id: int) -> UUID:
        broker = self._image.brokers.get(broker_id)
        return DIRECTORY_UNASSIGNED if broker is None else only_directory(broker.log_dirs)

    def _note(
        self,
        place: HostedPartition,
        record: PartitionChangeRecord,
        why: str,
        choice: ElectionResult,
    ) -> None:
        topic, partition_id, before = place
        after = before.changed_by(record)
        self._changed[TopicIdPartition(topic.topic_id, partition_id)] = after
        if after.leader_epoch != before.leader_epoch:
            self._causes.append(
                PartitionLeaderChange(
                    topic=topic.name,
                    partition=partition_id,
                    old=before.leader,
                    new=after.leader,
                    epoch=after.leader_epoch,
                    why=f"{why}; {choice.how}",
                    unclean=choice.unclean,
                    may_lose=_may_lose(before, after.leader) if choice.unclean else "",
                )
            )
        if after.isr != before.isr:
            self._causes.append(
                IsrChange(
                    topic=topic.name,
                    partition=partition_id,
                    old=before.isr,
                    new=after.isr,
                    eligible=after.elr,
                    why=why,
                )
            )


def _may_lose(before: PartitionImage, leader: int) -> str:
    holders = sorted({*before.isr, *before.elr} - {leader})
    if not holders:
        return f"committed records that {leader} no longer has; nobody else is known to hold them"
    return f"committed records that only {', '.join(map(str, holders))} had for sure"


def elr_enabled(image: ClusterImage) -> bool:
    """Whether the cluster keeps eligible leader replicas."""
    return image.features.get(ELR_FEATURE, 0) >= 1


def only_directory(directories: Collection[UUID]) -> UUID:
    """Where a new replica goes: a broker with several directories chooses and reports it."""
    return next(iter(directories)) if len(directories) == 1 else DIRECTORY_UNASSIGNED


def directory_is_online(directory: UUID, broker: BrokerRegistration) -> bool:
    """Whether a replica's directory is one the broker has; unassigned ones count as such."""
    if directory == DIRECTORY_LOST:
        return False
    if directory in (DIRECTORY_UNASSIGNED, ZERO_UUID) or not broker.log_dirs:
        return True
    return directory in broker.log_dirs
