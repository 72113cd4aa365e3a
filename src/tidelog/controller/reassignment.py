"""Reassignments: moving a partition to other brokers without a moment of less safety.

A request only writes down who comes and who goes. New replicas fetch like any follower and enter
the ISR by their leader's proposal; the change that finds all of them there ends the reassignment
(`PartitionTarget.completed`).

Invariant  A reassignment never puts a replica into the ISR (C18).
Invariant  To cancel one does not lose committed records, unless the topic allows unclean elections.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias

from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import HostedPartition, PartitionLeadership
from tidelog.controller.partition_change import Election, PartitionTarget
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.partitions import not_assignable
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult, together
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import PartitionChangeRecord

MAX_RECORDS: Final = 10_000


class NewPartitionReassignment(NamedTuple):
    """Where one partition shall be; no replicas cancel what is under way."""

    partition: int
    replicas: tuple[int, ...] | None


class OngoingReassignment(NamedTuple):
    """A partition on its way."""

    partition: int
    replicas: tuple[int, ...]
    adding: tuple[int, ...]
    removing: tuple[int, ...]


ReassignedTopics: TypeAlias = list[tuple[str, list[tuple[int, Refusal | None]]]]
OngoingTopics: TypeAlias = list[tuple[str, list[OngoingReassignment]]]


def alter_partition_reassignments(
    image: ClusterImage,
    leadership: PartitionLeadership,
    requests: Iterable[tuple[str, Sequence[NewPartitionReassignment]]],
    *,
    allow_replication_factor_change: bool = True,
) -> ControllerResult[ReassignedTopics | Refusal]:
    """Each partition for itself; the reply is in the order of the request."""
    records: list[MetadataRecord] = []
    reply: ReassignedTopics = []
    for topic_name, partitions in requests:
        topic = image.topics_by_name.get(topic_name)
        outcomes: list[tuple[int, Refusal | None]] = []
        reply.append((topic_name, outcomes))
        for request in partitions:
            place = None if topic is None else leadership.find(topic, request.partition)
            if place is None:
                why = (
                    f"Unable to find a topic named {topic_name}."
                    if topic is None
                    else f"Unable to find partition {topic_name}:{request.partition}."
                )
                outcomes.append(
                    (request.partition, Refusal(ErrorCode.unknown_topic_or_partition, why))
                )
                continue
            if request.replicas is None:
                outcome = _cancel(leadership, place)
            else:
                outcome = _reassign_refused(
                    image, place.partition, request.replicas, allow_replication_factor_change
                ) or _reassign(leadership, place, request.replicas)
            if isinstance(outcome, PartitionChangeRecord):
                records.append(outcome)
            outcomes.append((request.partition, outcome if isinstance(outcome, Refusal) else None))
    if len(records) > MAX_RECORDS:
        why = f"A request may reassign at most {MAX_RECORDS} partitions."
        return ControllerResult((), Refusal(ErrorCode.policy_violation, why))
    return together(records, reply, leadership.causes)


def _reassign_refused(
    image: ClusterImage,
    partition: PartitionImage,
    replicas: tuple[int, ...],
    allow_replication_factor_change: bool,
) -> Refusal | None:
    why = not_assignable(image, replicas)
    if why is not None:
        text = f"The manual partition assignment {why}."
        return Refusal(ErrorCode.invalid_replica_assignment, text)
    factor = len(partition.replicas) - len(partition.removing)
    if not allow_replication_factor_change and len(replicas) != factor:
        why = f"The partition has {factor} replica(s), the assignment has {len(replicas)}."
        return Refusal(ErrorCode.invalid_replication_factor, why)
    return None


def _reassign(
    leadership: PartitionLeadership, place: HostedPartition, wanted: tuple[int, ...]
) -> PartitionChangeRecord | None:
    """Begin to move; what only changes the order, or only drops replicas, is done at once."""
    partition = place.partition
    settled = [replica for replica in partition.replicas if replica not in partition.adding]
    adding = tuple(sorted(replica for replica in wanted if replica not in settled))
    # Who was only about to come and is not wanted any more has nothing to hand over.
    complete = {*settled, *partition.isr, *partition.elr}
    removing = tuple(sorted(r for r in partition.replicas if r not in wanted and r in complete))
    return leadership.change(
        place,
        replace(
            PartitionTarget.of(partition),
            replicas=wanted + removing,
            adding=adding,
            removing=removing,
        ),
        f"the partition was assigned to {_brokers(wanted)}",
        election=Election.ONLINE,
    )


def _cancel(
    leadership: PartitionLeadership, place: HostedPartition
) -> PartitionChangeRecord | Refusal | None:
    """Back to the replicas from before, without those that were to come."""
    topic, _, partition = place
    if not partition.adding and not partition.removing:
        why = "No reassignment is in progress."
        return Refusal(ErrorCode.no_reassignment_in_progress, why)
    replicas = tuple(r for r in partition.replicas if r not in partition.adding)
    isr = tuple(member for member in partition.isr if member not in partition.adding)
    if not isr and not leadership.rules(topic).unclean:
        why = (
            "Nobody from before the reassignment is in sync; to go back needs an unclean election."
        )
        return Refusal(ErrorCode.invalid_replica_assignment, why)
    if not isr and partition.isr and not any(leadership.may_lead(place, r) for r in replicas):
        why = "Nobody from before the reassignment could lead."
        return Refusal(ErrorCode.invalid_replica_assignment, why)
    return leadership.change(
        place,
        replace(PartitionTarget.of(partition), replicas=replicas, isr=isr, adding=(), removing=()),
        f"the reassignment was cancelled, back to {_brokers(replicas)}",
    )


def _brokers(broker_ids: Iterable[int]) -> str:
    return ", ".join(map(str, broker_ids))


def list_partition_reassignments(
    image: ClusterImage, requests: Iterable[tuple[str, Sequence[int]]] | None = None
) -> OngoingTopics:
    """What is under way: in all topics, or in the named partitions; unknown ones are left out."""
    if requests is None:
        requests = [
            (name, sorted(topic.partitions)) for name, topic in sorted(image.topics_by_name.items())
        ]
    ongoing = []
    for topic_name, partition_ids in requests:
        found = [
            OngoingReassignment(index, partition.replicas, partition.adding, partition.removing)
            for index in partition_ids
            if (partition := image.partition(topic_name, index)) is not None
            and (partition.adding or partition.removing)
        ]
        if found:
            ongoing.append((topic_name, found))
    return ongoing
