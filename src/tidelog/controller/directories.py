"""Which log directory of a broker holds which replica, as the broker says (KIP-858).

Invariant  A replica in a directory that its broker does not have any more is not in sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias
from uuid import UUID

from tidelog.controller.brokers import current_broker
from tidelog.controller.image import ClusterImage
from tidelog.controller.leadership import HostedPartition, PartitionLeadership
from tidelog.controller.records import MetadataRecord
from tidelog.controller.result import ControllerResult
from tidelog.model.errors import ErrorCode, Refusal
from tidelog.model.ids import DIRECTORY_LOST


class ReplicaDirectory(NamedTuple):
    """The replica of a partition lies in a directory."""

    directory_id: UUID
    topic_id: UUID
    partition: int


AssignedReplicas: TypeAlias = Sequence[tuple[ReplicaDirectory, Refusal | None]]


def assign_replicas_to_directories(
    image: ClusterImage,
    leadership: PartitionLeadership,
    broker_id: int,
    broker_epoch: int,
    places: Iterable[ReplicaDirectory],
) -> ControllerResult[AssignedReplicas | Refusal]:
    """Note where replicas of a broker lie; each place has an outcome of its own."""
    broker = current_broker(image, broker_id, broker_epoch)
    if isinstance(broker, Refusal):
        return ControllerResult((), broker)
    records: list[MetadataRecord] = []
    outcome: list[tuple[ReplicaDirectory, Refusal | None]] = []
    offline: list[HostedPartition] = []
    for place in places:
        hosted = _find(image, leadership, broker_id, place)
        if isinstance(hosted, Refusal):
            outcome.append((place, hosted))
            continue
        outcome.append((place, None))
        if hosted.partition.directory_of(broker_id) != place.directory_id:
            records.extend(leadership.lies_in(broker_id, hosted, place.directory_id))
        if place.directory_id == DIRECTORY_LOST or place.directory_id not in broker.log_dirs:
            offline.append(leadership.find(*hosted[:2]) or hosted)
    why = f"a directory of broker {broker_id} is offline"
    records.extend(leadership.leaves(broker_id, offline, why))
    return ControllerResult(tuple(records), outcome, atomic=False, causes=leadership.causes)


def _find(
    image: ClusterImage, leadership: PartitionLeadership, broker_id: int, place: ReplicaDirectory
) -> HostedPartition | Refusal:
    topic = image.topics_by_id.get(place.topic_id)
    if topic is None:
        return Refusal(ErrorCode.unknown_topic_id, f"There is no topic {place.topic_id}.")
    hosted = leadership.find(topic, place.partition)
    if hosted is None:
        why = f"{topic.name} has no partition {place.partition}."
        return Refusal(ErrorCode.unknown_topic_or_partition, why)
    if broker_id not in hosted.partition.replicas:
        why = f"Broker {broker_id} has no replica of {topic.name}-{place.partition}."
        return Refusal(ErrorCode.not_leader_or_follower, why)
    return hosted
