"""All topics with their partitions, found by name, by id, and by the brokers that hold them.

Invariant  The three ways lead to the same values: each topic is under its name and its id, each
           partition under every broker of its replicas.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition, TopicImage
from tidelog.controller.records import (
    MetadataRecord,
    UnappliableRecord,
)
from tidelog.protocol.stored.metadata import (
    ClearElrRecord,
    PartitionChangeRecord,
    PartitionRecord,
    TopicRecord,
)


class TopicsImage:
    """Topics and partitions. Changed only by the cluster image that owns it."""

    def __init__(self) -> None:
        self.by_name: dict[str, TopicImage] = {}
        self.by_id: dict[UUID, TopicImage] = {}
        self._hosted: dict[int, dict[TopicIdPartition, None]] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicsImage) and self.by_name == other.by_name

    __hash__ = None  # type: ignore[assignment]  # mutable: equal now is not equal for ever

    def copy(self) -> TopicsImage:
        other = TopicsImage()
        for topic in self.by_name.values():
            twin = TopicImage(topic.name, topic.topic_id, dict(topic.partitions))
            other.by_name[topic.name] = other.by_id[topic.topic_id] = twin
        other._hosted = {broker: dict(keys) for broker, keys in self._hosted.items()}
        return other

    def hosted_by(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        for topic_id, index in self._hosted.get(broker_id, ()):
            topic = self.by_id[topic_id]
            yield topic, index, topic.partitions[index]

    def records(self) -> Iterator[MetadataRecord]:
        for name, topic in sorted(self.by_name.items()):
            yield TopicRecord(name=name, topic_id=topic.topic_id)
            for index, partition in sorted(topic.partitions.items()):
                yield partition.to_record(topic.topic_id, index)

    def create(self, record: TopicRecord, delta: ImageDelta) -> None:
        if record.name in self.by_name or record.topic_id in self.by_id:
            raise UnappliableRecord(f"topic {record.name} ({record.topic_id}) exists already")
        topic = TopicImage(record.name, record.topic_id)
        self.by_name[topic.name] = self.by_id[topic.topic_id] = topic
        delta.topics_created[topic.topic_id] = topic

    def remove(self, topic_id: UUID, delta: ImageDelta) -> TopicImage:
        """The topic that is gone, as it was."""
        topic = self._topic(topic_id)
        for index, partition in topic.partitions.items():
            key = TopicIdPartition(topic_id, index)
            for broker_id in partition.replicas:
                self._unhost(broker_id, key)
            delta.note_partition(key, topic.name, partition, None)
        del self.by_name[topic.name], self.by_id[topic_id]
        if delta.topics_created.pop(topic_id, None) is None:
            delta.topics_deleted[topic_id] = topic
        return topic

    def set_partition(self, record: PartitionRecord, delta: ImageDelta) -> None:
        topic = self._topic(record.topic_id)
        self._put(topic, record.partition_id, PartitionImage.from_record(record), delta)

    def change_partition(self, record: PartitionChangeRecord, delta: ImageDelta) -> None:
        topic = self._topic(record.topic_id)
        partition = topic.partitions.get(record.partition_id)
        if partition is None:
            raise UnappliableRecord(f"{topic.name} has no partition {record.partition_id}")
        self._put(topic, record.partition_id, partition.changed_by(record), delta)

    def clear_elr(self, record: ClearElrRecord, delta: ImageDelta) -> None:
        if record.topic_name and record.topic_name not in self.by_name:
            raise UnappliableRecord(f"there is no topic {record.topic_name} to clear the ELR of")
        topics = [self.by_name[record.topic_name]] if record.topic_name else self.by_name.values()
        for topic in topics:
            for index, partition in topic.partitions.items():
                if partition.elr or partition.last_known_elr:
                    cleared = PartitionChangeRecord(
                        partition_id=index,
                        topic_id=topic.topic_id,
                        eligible_leader_replicas=(),
                        last_known_elr=(),
                    )
                    self._put(topic, index, partition.changed_by(cleared), delta)

    def _topic(self, topic_id: UUID) -> TopicImage:
        topic = self.by_id.get(topic_id)
        if topic is None:
            raise UnappliableRecord(f"there is no topic with id {topic_id}")
        return topic

    def _put(self, topic: TopicImage, index: int, after: PartitionImage, delta: ImageDelta) -> None:
        key = TopicIdPartition(topic.topic_id, index)
        before = topic.partitions.get(index)
        topic.partitions[index] = after
        delta.note_partition(key, topic.name, before, after)
        old = () if before is None else before.replicas
        if old != after.replicas:
            for broker_id in old:
                self._unhost(broker_id, key)
            for broker_id in after.replicas:
                self._hosted.setdefault(broker_id, {})[key] = None

    def _unhost(self, broker_id: int, key: TopicIdPartition) -> None:
        keys = self._hosted[broker_id]
        keys.pop(key, None)
        if not keys:
            del self._hosted[broker_id]
