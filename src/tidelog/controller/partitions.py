"""New partitions: of a topic that is created, or more of one that exists.

Invariant  A new partition has the active brokers of its assignment in its ISR, the first of them as
           leader, and starts with leader epoch 0 and partition epoch 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import only_directory
from tidelog.controller.placement import place, usable_brokers
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import Charge, ControllerResult, free, together
from tidelog.model.entropy import Entropy
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.protocol.stored.metadata import PartitionRecord

MAX_PARTITIONS_PER_REQUEST: Final = 10_000
NOT_HOSTED: Final = "This server does not host this topic-partition."
TOO_MANY: Final = Refusal(
    ErrorCode.policy_violation,
    f"A request may create at most {MAX_PARTITIONS_PER_REQUEST} partitions.",
)


class NewPartitions(NamedTuple):
    """A request for a topic to have `total` partitions in all."""

    topic: str
    total: int
    assignments: Sequence[Sequence[int]] | None = None
    """The replicas of each new partition; None lets the controller place them."""


def create_partitions(
    image: ClusterImage,
    entropy: Entropy,
    requests: Collection[NewPartitions],
    *,
    validate_only: bool = False,
    charge: Charge = free,
) -> ControllerResult[list[tuple[str, Refusal | None]]]:
    """Each topic for itself; the reply is in the order of the requests."""
    times_named = Counter(request.topic for request in requests)
    records: list[MetadataRecord] = []
    outcome: list[tuple[str, Refusal | None]] = []
    for request in requests:
        if times_named[request.topic] > 1:
            twice = Refusal(ErrorCode.invalid_request, "Duplicate topic name.")
            outcome.append((request.topic, twice))
            continue
        at_most = MAX_PARTITIONS_PER_REQUEST - len(records)
        added = _more_partitions(image, entropy, request, at_most, charge)
        if isinstance(added, Refusal):
            outcome.append((request.topic, added))
        else:
            records.extend(added)
            outcome.append((request.topic, None))
    return together(() if validate_only else records, outcome)


def _more_partitions(
    image: ClusterImage, entropy: Entropy, request: NewPartitions, at_most: int, charge: Charge
) -> list[PartitionRecord] | Refusal:
    topic = image.topics_by_name.get(request.topic)
    if topic is None:
        return Refusal(ErrorCode.unknown_topic_or_partition, NOT_HOSTED)
    existing = len(topic.partitions)
    additional = request.total - existing
    if additional <= 0:
        why = (
            f"The topic {request.topic} currently has {existing} partition(s); {request.total} "
            "would not be an increase."
            if additional
            else f"Topic already has {existing} partition(s)."
        )
        return Refusal(ErrorCode.invalid_partitions, why)
    if additional > at_most:
        return TOO_MANY
    replication_factor = len(topic.partitions[0].replicas)
    if request.assignments is not None and len(request.assignments) != additional:
        why = (
            f"Attempted to add {additional} additional partition(s), but only "
            f"{len(request.assignments)} assignment(s) were specified."
        )
        return Refusal(ErrorCode.invalid_replica_assignment, why)
    too_fast = charge(additional)
    if too_fast is not None:
        return too_fast
    if request.assignments is None:
        placed = place(
            usable_brokers(image.brokers.values()), additional, replication_factor, entropy
        )
        if isinstance(placed, Refusal):
            return placed
        return new_partitions(image, topic.topic_id, placed, first=existing)
    refusal = assignment_refused(image, request.assignments, replication_factor)
    if refusal is not None:
        return refusal
    return new_partitions(image, topic.topic_id, request.assignments, first=existing)


def assignment_refused(
    image: ClusterImage,
    assignments: Sequence[Sequence[int]],
    replication_factor: int,
) -> Refusal | None:
    """Why replicas cannot be where a client wants them."""
    for replicas in assignments:
        why = not_assignable(image, replicas)
        if why is None and len(replicas) != replication_factor:
            why = (
                f"has a partition with {len(replicas)} replica(s), but another partition has "
                f"{replication_factor} replica(s)"
            )
        elif why is None and not any(image.brokers[broker_id].active for broker_id in replicas):
            why = "includes only brokers that are fenced or in controlled shutdown"
        if why is not None:
            text = f"The manual partition assignment {why}."
            return Refusal(ErrorCode.invalid_replica_assignment, text)
    return None


def not_assignable(image: ClusterImage, replicas: Sequence[int]) -> str | None:
    """What is wrong with the replicas of one partition, as the end of a sentence."""
    if not replicas:
        return "includes an empty replica list"
    unknown = [broker_id for broker_id in replicas if broker_id not in image.brokers]
    if unknown:
        return f"includes broker {unknown[0]}, but no such broker is registered"
    for broker_id, times in Counter(replicas).items():
        if times > 1:
            return f"includes the broker {broker_id} more than once"
    return None


def new_partitions(
    image: ClusterImage,
    topic_id: UUID,
    assignments: Sequence[Sequence[int]],
    *,
    first: int = 0,
) -> list[PartitionRecord]:
    """The records of partitions whose assignments have been checked or placed."""
    records = []
    for index, replicas in enumerate(assignments, first):
        isr = tuple(broker_id for broker_id in replicas if image.brokers[broker_id].active)
        records.append(
            PartitionRecord(
                partition_id=index,
                topic_id=topic_id,
                replicas=tuple(replicas),
                isr=isr,
                leader=isr[0],
                leader_epoch=0,
                partition_epoch=0,
                directories=tuple(
                    only_directory(image.brokers[broker_id].log_dirs) for broker_id in replicas
                ),
            )
        )
    return records
