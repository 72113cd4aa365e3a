"""Who leads: elections and in-sync sets when brokers come, go, or lose a directory.

Invariant  A leader is an acceptable member of the ISR, or of the ELR when the ISR is empty; any
           other only by an unclean election, which leaves the leader alone in the ISR and marks
           the partition as recovering (C15).
Invariant  The ELR is disjoint from the ISR, and empty when the ISR has its minimum size (C14).
Invariant  Without the ELR feature the last member stays in the ISR, with no leader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.controller.partition_image import PartitionImage, TopicImage
from tidelog.controller.records import (
    LEADER_UNCHANGED,
    RECOVERING,
    PartitionChangeRecord,
)
from tidelog.controller.registrations import BrokerRegistration
from tidelog.model.config import NodeConfig
from tidelog.model.ids import DIRECTORY_LOST, DIRECTORY_UNASSIGNED, NO_LEADER, ZERO_UUID
from tidelog.model.settings.effective import BrokerLayers, effective_topic_value
from tidelog.model.settings.topic import TopicSettings

ELR_FEATURE: Final = "eligible.leader.replicas.version"


class HostedPartition(NamedTuple):
    """A partition where it stands in the image."""

    topic: TopicImage
    partition_id: int
    partition: PartitionImage


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionRules:
    """What an election in one topic has to respect."""

    min_isr: int
    elr: bool
    unclean: bool


class _Election(NamedTuple):
    leader: int
    unclean: bool = False


class Leadership:
    """Recalculates partitions by looking at an image, for one decision."""

    def __init__(self, image: ClusterImage, config: NodeConfig) -> None:
        self._image = image
        self._layers = BrokerLayers(
            image.config(BROKER_CONFIG, str(config.node_id)),
            image.config(BROKER_CONFIG, ""),
            config,
        )
        self._elr = elr_enabled(image)
        self._rules: dict[UUID, ElectionRules] = {}

    def rules(self, topic: TopicImage) -> ElectionRules:
        """The rules of one topic; its minimum ISR is never more than it has replicas."""
        known = self._rules.get(topic.topic_id)
        if known is None:
            known = self._rules[topic.topic_id] = self._rules_of(topic)
        return known

    def _rules_of(self, topic: TopicImage) -> ElectionRules:
        overrides = self._image.config(TOPIC_CONFIG, topic.name)
        min_isr = effective_topic_value(TopicSettings.min_insync_replicas, overrides, self._layers)
        return ElectionRules(
            min_isr=min(min_isr, len(topic.partitions[0].replicas)),
            elr=self._elr,
            unclean=effective_topic_value(
                TopicSettings.unclean_leader_election_enable, overrides, self._layers
            ),
        )

    def leaves_isrs(self, broker_id: int) -> list[PartitionChangeRecord]:
        """The broker goes out of every ISR and leads nothing, but its data stays eligible."""
        return self.leaves(broker_id, self._in_isr(broker_id))

    def leaves(
        self, broker_id: int, partitions: Iterable[HostedPartition]
    ) -> list[PartitionChangeRecord]:
        """The broker goes out of the ISRs of some partitions."""
        return self._recalculate(
            partitions,
            acceptable=lambda broker: broker.broker_id != broker_id and broker.active,
            without=broker_id,
        )

    def leaves_for_good(self, broker_id: int) -> list[PartitionChangeRecord]:
        """The broker goes out of every ISR and ELR: its data can no longer be relied upon."""
        hosted = map(HostedPartition._make, self._image.partitions_of(broker_id))
        return self._recalculate(
            (
                place
                for place in hosted
                if broker_id in place.partition.isr or broker_id in place.partition.elr
            ),
            acceptable=lambda broker: broker.broker_id != broker_id and broker.active,
            without=broker_id,
            lost=broker_id,
        )

    def comes(self, broker_id: int) -> list[PartitionChangeRecord]:
        """The broker is about to be unfenced: it may lead partitions that have no leader."""
        hosted = map(HostedPartition._make, self._image.partitions_of(broker_id))
        return self._recalculate(
            (place for place in hosted if not place.partition.has_leader),
            acceptable=lambda broker: broker.broker_id == broker_id or broker.active,
        )

    def leads_anything(self, broker_id: int) -> bool:
        """Whether the broker leads a partition."""
        return any(
            partition.leader == broker_id
            for _, _, partition in self._image.partitions_of(broker_id)
        )

    def _in_isr(self, broker_id: int) -> Iterable[HostedPartition]:
        hosted = map(HostedPartition._make, self._image.partitions_of(broker_id))
        return (place for place in hosted if broker_id in place.partition.isr)

    def _recalculate(
        self,
        partitions: Iterable[HostedPartition],
        *,
        acceptable: Callable[[BrokerRegistration], bool],
        without: int = NO_LEADER,
        lost: int = NO_LEADER,
    ) -> list[PartitionChangeRecord]:
        records = []
        for topic, partition_id, partition in partitions:

            def may_lead(broker_id: int, partition: PartitionImage = partition) -> bool:
                broker = self._image.brokers.get(broker_id)
                return (
                    broker is not None
                    and acceptable(broker)
                    and directory_is_online(partition.directory_of(broker_id), broker)
                )

            change = recalculated(
                partition,
                PartitionChangeRecord(topic_id=topic.topic_id, partition_id=partition_id),
                isr=tuple(member for member in partition.isr if member != without),
                rules=self.rules(topic),
                may_lead=may_lead,
                lost=lost,
            )
            if change is not None:
                records.append(change)
        return records


def elr_enabled(image: ClusterImage) -> bool:
    """Whether the cluster keeps eligible leader replicas."""
    return image.features.get(ELR_FEATURE, 0) >= 1


def directory_is_online(directory: UUID, broker: BrokerRegistration) -> bool:
    """Whether a replica's directory is one the broker has; unassigned ones count as such."""
    if directory == DIRECTORY_LOST:
        return False
    if directory in (DIRECTORY_UNASSIGNED, ZERO_UUID) or not broker.log_dirs:
        return True
    return directory in broker.log_dirs


def recalculated(
    partition: PartitionImage,
    unchanged: PartitionChangeRecord,
    *,
    isr: tuple[int, ...],
    rules: ElectionRules,
    may_lead: Callable[[int], bool],
    lost: int = NO_LEADER,
) -> PartitionChangeRecord | None:
    """What changes when the ISR is to be `isr`; None when nothing does.

    `lost` names a replica whose data can no longer be relied upon.
    """
    elr = _eligible(partition, isr, rules, lost)
    election = _elect(partition, isr, elr, rules, may_lead)
    record = unchanged
    if election.leader != partition.leader:
        record = replace(record, leader=election.leader)
        if election.leader in elr:
            isr = (election.leader,)
            # A leader that may commit alone leaves the other eligible ones behind.
            elr = () if rules.min_isr <= 1 else tuple(m for m in elr if m != election.leader)
        elif election.unclean:
            isr, elr = (election.leader,), ()
            if partition.recovery_state != RECOVERING:
                record = replace(record, leader_recovery_state=RECOVERING)
    if elr != partition.elr:
        record = replace(record, eligible_leader_replicas=elr)
    if isr != partition.isr and (isr or rules.elr):
        record = replace(record, isr=isr)
    record = _with_last_known_leader(partition, record, rules)
    return None if record == unchanged else record


def _eligible(
    partition: PartitionImage, isr: tuple[int, ...], rules: ElectionRules, lost: int
) -> tuple[int, ...]:
    """Replicas outside the ISR that still hold everything committed."""
    if not rules.elr or len(isr) >= rules.min_isr:
        return ()
    return tuple(sorted({*partition.elr, *partition.isr} - {*isr, lost}))


def _elect(
    partition: PartitionImage,
    isr: tuple[int, ...],
    elr: tuple[int, ...],
    rules: ElectionRules,
    may_lead: Callable[[int], bool],
) -> _Election:
    clean = isr or elr
    if partition.leader in clean and may_lead(partition.leader):
        return _Election(partition.leader)
    for replica in partition.replicas:
        if replica in clean and may_lead(replica):
            return _Election(replica)
    last_known = partition.last_known_elr
    if rules.elr and not clean and len(last_known) == 1 and may_lead(last_known[0]):
        return _Election(last_known[0], unclean=True)
    if rules.unclean:
        for replica in partition.replicas:
            if may_lead(replica):
                return _Election(replica, unclean=True)
    return _Election(NO_LEADER)


def _with_last_known_leader(
    partition: PartitionImage, record: PartitionChangeRecord, rules: ElectionRules
) -> PartitionChangeRecord:
    """Remember who led when the partition became leaderless, until it has a leader again."""
    if not rules.elr:
        return record
    leader = partition.leader if record.leader == LEADER_UNCHANGED else record.leader
    if leader != NO_LEADER:
        return replace(record, last_known_elr=()) if partition.last_known_elr else record
    became_leaderless = partition.has_leader and record.isr == ()
    return replace(record, last_known_elr=(partition.leader,)) if became_leaderless else record
