"""AlterPartition: a leader proposes the in-sync replicas of the partitions it leads.

The proposal is checked in a fixed order, so that the leader can tell from the answer whether it
was not applied for sure, may have been overtaken, or reached a controller that is itself behind.

Invariant  A proposal is taken only when its leader epoch and partition epoch are the current ones,
           and every member it names is live, in the incarnation the leader saw (C12).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.controller.brokers import current_broker
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import HostedPartition, PartitionLeadership, directory_is_online
from tidelog.controller.partition_change import PartitionTarget
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import LEADER_UNCHANGED, RECOVERED, RECOVERING, MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal


class ProposedIsrMember(NamedTuple):
    """A replica the leader has in sync; with epoch -1 it does not say which incarnation."""

    broker_id: int
    broker_epoch: int = -1


class IsrProposal(NamedTuple):
    """What the leader of one partition wants its ISR to be."""

    partition: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[ProposedIsrMember, ...]
    recovery_state: int = RECOVERED


class AlteredPartition(NamedTuple):
    """The partition after the proposal was taken."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    recovery_state: int


AlteredTopics: TypeAlias = list[tuple[UUID, list[tuple[int, AlteredPartition | Refusal]]]]


def alter_partition(
    image: ClusterImage,
    leadership: PartitionLeadership,
    broker_id: int,
    broker_epoch: int,
    topics: Iterable[tuple[UUID, Sequence[IsrProposal]]],
) -> ControllerResult[AlteredTopics | Refusal]:
    """Each partition for itself; the reply is in the order of the request."""
    sender = current_broker(image, broker_id, broker_epoch)
    if isinstance(sender, Refusal):
        return ControllerResult((), sender)
    records: list[MetadataRecord] = []
    reply: AlteredTopics = []
    for topic_id, proposals in topics:
        outcomes: list[tuple[int, AlteredPartition | Refusal]] = []
        reply.append((topic_id, outcomes))
        for proposal in proposals:
            place = _find(image, leadership, topic_id, proposal.partition)
            if isinstance(place, Refusal):
                outcomes.append((proposal.partition, place))
                continue
            outcome = _refused(image, broker_id, place.partition, proposal) or _altered(
                leadership, broker_id, place, proposal, records
            )
            outcomes.append((proposal.partition, outcome))
    return ControllerResult(tuple(records), reply, atomic=False, causes=leadership.causes)


def _find(
    image: ClusterImage, leadership: PartitionLeadership, topic_id: UUID, partition_id: int
) -> HostedPartition | Refusal:
    topic = image.topics_by_id.get(topic_id)
    if topic is None:
        return Refusal(ErrorCode.unknown_topic_id, "There is no topic with this id.")
    why = f"Topic {topic.name} has no partition {partition_id}."
    return leadership.find(topic, partition_id) or Refusal(
        ErrorCode.unknown_topic_or_partition, why
    )


def _refused(
    image: ClusterImage, broker_id: int, partition: PartitionImage, proposal: IsrProposal
) -> Refusal | None:
    """The first reason not to take a proposal; the order is part of the protocol."""
    if proposal.leader_epoch > partition.leader_epoch:
        why = f"The leader epoch here is only {partition.leader_epoch}."
        return Refusal(ErrorCode.not_controller, why)
    if proposal.partition_epoch > partition.partition_epoch:
        why = f"The partition epoch here is only {partition.partition_epoch}."
        return Refusal(ErrorCode.not_controller, why)
    if proposal.leader_epoch < partition.leader_epoch:
        why = f"The leader epoch is {partition.leader_epoch} by now."
        return Refusal(ErrorCode.fenced_leader_epoch, why)
    if broker_id != partition.leader:
        return Refusal(ErrorCode.invalid_request, f"The leader is {partition.leader}.")
    if proposal.partition_epoch < partition.partition_epoch:
        why = f"The partition epoch is {partition.partition_epoch} by now."
        return Refusal(ErrorCode.invalid_update_version, why)
    malformed = _malformed(partition, proposal)
    if malformed is not None:
        return Refusal(ErrorCode.invalid_request, malformed)
    for member in proposal.isr:
        ineligible = _ineligible(image, partition, member)
        if ineligible is not None:
            why = f"Broker {member.broker_id} {ineligible}."
            return Refusal(ErrorCode.ineligible_replica, why)
    return None


def _malformed(partition: PartitionImage, proposal: IsrProposal) -> str | None:
    members = [member.broker_id for member in proposal.isr]
    if (
        not members
        or len(set(members)) != len(members)
        or not set(members) <= {*partition.replicas}
    ):
        return f"An ISR is made of the replicas {list(partition.replicas)}, not of {members}."
    if partition.leader not in members:
        return "The ISR lacks the leader."
    if proposal.recovery_state not in (RECOVERED, RECOVERING):
        return f"{proposal.recovery_state} is no recovery state."
    if proposal.recovery_state == RECOVERING and len(members) > 1:
        return "While its leader recovers, a partition has nobody else in sync."
    if proposal.recovery_state == RECOVERING and partition.recovery_state == RECOVERED:
        return "The partition has recovered already."
    return None


def _ineligible(
    image: ClusterImage, partition: PartitionImage, member: ProposedIsrMember
) -> str | None:
    broker = image.brokers.get(member.broker_id)
    if broker is None:
        return "is not registered"
    if broker.in_controlled_shutdown:
        return "is shutting down"
    if broker.fenced:
        return "is fenced"
    if member.broker_epoch not in (-1, broker.broker_epoch):
        return f"has epoch {broker.broker_epoch}, not {member.broker_epoch}"
    if not directory_is_online(partition.directory_of(member.broker_id), broker):
        return "has its replica in a directory that is offline"
    return None


def _altered(
    leadership: PartitionLeadership,
    broker_id: int,
    place: HostedPartition,
    proposal: IsrProposal,
    records: list[MetadataRecord],
) -> AlteredPartition | Refusal:
    before = place.partition
    isr = tuple(member.broker_id for member in proposal.isr)
    record = leadership.change(
        place,
        replace(PartitionTarget.of(before), isr=isr, recovery_state=proposal.recovery_state),
        _words(broker_id, before, isr),
    )
    after = before
    if record is not None:
        records.append(record)
        after = before.changed_by(record)
        if record.leader not in (LEADER_UNCHANGED, broker_id):
            why = f"The reassignment is complete, and {after.leader} leads now."
            return Refusal(ErrorCode.new_leader_elected, why)
    return AlteredPartition(
        leader=after.leader,
        leader_epoch=after.leader_epoch,
        partition_epoch=after.partition_epoch,
        isr=after.isr,
        recovery_state=after.recovery_state,
    )


def _words(leader: int, before: PartitionImage, isr: tuple[int, ...]) -> str:
    """What the leader wants; its own reasons are not in its request."""
    joined = [str(member) for member in isr if member not in before.isr]
    left = [str(member) for member in before.isr if member not in isr]
    wants = [f"takes {', '.join(joined)} into the ISR"] if joined else []
    wants += [f"drops {', '.join(left)} from the ISR"] if left else []
    if before.recovery_state == RECOVERING:
        wants.append("has recovered")
    return f"leader {leader} {' and '.join(wants) or 'confirms the ISR'}"
