"""The partitions this node hosts, and those it should host but cannot.

Invariant  A replica is served only under the topic id that the metadata knows (D22).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from uuid import UUID

from tidelog.controller.image import ClusterImage
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import TopicPartition
from tidelog.replication.partition import Partition


class Replicas:
    """Hosted partitions by name, and the protocol's answer for those that are not here."""

    def __init__(self) -> None:
        self._hosted: dict[TopicPartition, Partition] = {}
        self._lost: set[TopicPartition] = set()

    def __iter__(self) -> Iterator[Partition]:
        return iter(self._hosted.values())

    def __len__(self) -> int:
        return len(self._hosted)

    def get(self, name: TopicPartition) -> Partition | None:
        return self._hosted.get(name)

    def high_watermarks(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        """Those of the named partitions that are hosted."""
        return {
            name: self._hosted[name].high_watermark.offset for name in names if name in self._hosted
        }

    def host(self, partition: Partition) -> None:
        self._hosted[partition.name] = partition

    def lose(self, name: TopicPartition) -> None:
        """The directory that holds the replica, or should, cannot be used."""
        self._lost.add(name)

    def is_lost(self, name: TopicPartition) -> bool:
        """Whether a replica should be here and cannot."""
        return name in self._lost

    def abandon(self, name: TopicPartition) -> None:
        """Stop hosting; whoever waits for the partition is told."""
        self._lost.discard(name)
        partition = self._hosted.pop(name, None)
        if partition is not None:
            partition.abandon()

    def locate(
        self,
        image: ClusterImage,
        name: TopicPartition | None,
        topic_id: UUID | None,
        *,
        other_id: ErrorCode = ErrorCode.unknown_topic_id,
    ) -> Partition | ErrorCode:
        """The hosted replica a request speaks of, or why there is none.

        `name` is None when the topic id of the request is not known; `other_id` is the answer
        when the name is hosted here under another topic id than the request's.
        """
        if name is None:
            return ErrorCode.unknown_topic_id
        partition = self._hosted.get(name)
        if partition is None:
            if image.partition(*name) is None:
                return ErrorCode.unknown_topic_or_partition
            if name in self._lost:
                return ErrorCode.kafka_storage_error
            return ErrorCode.not_leader_or_follower
        if partition.log.health.offline_reason is not None:
            return ErrorCode.kafka_storage_error
        if topic_id is not None and topic_id != partition.log.topic_id:
            return other_id
        return partition
