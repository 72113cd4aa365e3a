"""The cluster's state: what the metadata log, read up to some offset, amounts to.

A controller decides by looking at the image and writes records; only replaying records changes
it. A broker keeps its own:

    delta = image.replay_all((offset, record) for offset, _, record in committed)

and acts on the delta (see `image_delta` for the order). The active controller replays what it
has just appended with `replay` into a `copy()` of the committed image, which it throws away when
it loses leadership.

Invariant  Two images that replayed the same records are equal, and have the same `digest`; so
           is one built from `snapshot_records` (C7).
Invariant  Records between a begin and an end record take effect together at the end record, or
           not at all.
Invariant  A record that does not fit the state raises `UnappliableRecord`; the node stops (C11).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, TypeVar

from tidelog.controller.access_image import AccessImage
from tidelog.controller.image_delta import ConfigResource, ImageDelta
from tidelog.controller.partition_image import PartitionImage, TopicIdPartition, TopicImage
from tidelog.controller.records import (
    MetadataRecord,
    UnappliableRecord,
    encode_record,
)
from tidelog.controller.registrations import (
    BrokerRegistration,
    ControllerRegistration,
    registration_after,
)
from tidelog.controller.topics_image import TopicsImage
from tidelog.model.errors import invariant
from tidelog.protocol.stored.metadata import (
    AbortTransactionRecord,
    BeginTransactionRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    EndTransactionRecord,
    FeatureLevelRecord,
    FenceBrokerRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnfenceBrokerRecord,
    UnregisterBrokerRecord,
    ZkMigrationStateRecord,
)

METADATA_VERSION: Final = "metadata.version"
TOPIC_CONFIG: Final = 2
BROKER_CONFIG: Final = 4
GROUP_CONFIG: Final = 32
K = TypeVar("K")
V = TypeVar("V")


class ClusterImage:
    """Brokers, topics, configs, features and the rest, built by replay alone."""

    def __init__(self) -> None:
        self.brokers: dict[int, BrokerRegistration] = {}
        self.controllers: dict[int, ControllerRegistration] = {}
        self._adopt_topics(TopicsImage())
        self.configs: dict[ConfigResource, dict[str, str]] = {}
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.access = AccessImage()
        self.end_offset = 0
        """Exclusive end of the log this state holds; an open transaction is not in it."""
        self._transaction: list[tuple[int, MetadataRecord]] | None = None

    def _adopt_topics(self, topics: TopicsImage) -> None:
        self._topics = topics
        self.topics_by_name = topics.by_name
        self.topics_by_id = topics.by_id

    # -- asking ------------------------------------------------------------------------------

    @property
    def in_transaction(self) -> bool:
        """A begin record was read and its end is still to come; no snapshot can be taken."""
        return self._transaction is not None

    @property
    def metadata_version(self) -> int:
        """The finalized level of metadata.version; 0 before the first record."""
        return self.features.get(METADATA_VERSION, 0)

    def config(self, resource_type: int, name: str) -> Mapping[str, str]:
        """The settings of one resource; empty when it has none."""
        return self.configs.get((resource_type, name), {})

    def partition(self, topic: str, index: int) -> PartitionImage | None:
        """A partition by topic name."""
        found = self.topics_by_name.get(topic)
        return None if found is None else found.partitions.get(index)

    def partitions_of(self, broker_id: int) -> Iterator[tuple[TopicImage, int, PartitionImage]]:
        """The partitions with a replica on a broker; do not replay while iterating."""
        return self._topics.hosted_by(broker_id)

    def copy(self) -> ClusterImage:
        """An independent image of the same state; cheap, since partitions are shared values."""
        other = ClusterImage()
        other.brokers = dict(self.brokers)
        other.controllers = dict(self.controllers)
        other._adopt_topics(self._topics.copy())
        other.configs = {resource: dict(values) for resource, values in self.configs.items()}
        other.features = dict(self.features)
        other.next_producer_id = self.next_producer_id
        other.access = self.access.copy()
        other.end_offset = self.end_offset
        other._transaction = None if self._transaction is None else list(self._transaction)
        return other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterImage) and self._state() == other._state()

    __hash__ = None  # type: ignore[assignment]  # mutable: equal now is not equal for ever

    def _state(self) -> tuple[object, ...]:
        return (
            self.brokers,
            self.controllers,
            self._topics,
            self.configs,
            self.features,
            self.next_producer_id,
            self.access,
            None if self._transaction is None else [record for _, record in self._transaction],
        )

    def digest(self) -> str:
        """A fingerprint of the state that all nodes at the same offset share."""
        summary = hashlib.sha256()
        for record in self.snapshot_records():
            summary.update(encode_record(record))
        return summary.hexdigest()

    def snapshot_records(self) -> Iterator[MetadataRecord]:
        """Records that build this state from nothing, in one fixed order."""
        invariant(not self.in_transaction, "a snapshot cannot hold half a transaction")
        for name in sorted(self.features, key=lambda name: (name != METADATA_VERSION, name)):
            yield FeatureLevelRecord(name=name, feature_level=self.features[name])
        for _, broker in sorted(self.brokers.items()):
            yield broker.to_record()
        for _, controller in sorted(self.controllers.items()):
            yield controller.to_record()
        yield from self._topics.records()
        for (kind, resource), values in sorted(self.configs.items()):
            for key, value in sorted(values.items()):
                yield ConfigRecord(
                    resource_type=kind, resource_name=resource, name=key, value=value
                )
        yield from self.access.quota_records()
        if self.next_producer_id > 0:
            yield ProducerIdsRecord(
                broker_id=-1, broker_epoch=-1, next_producer_id=self.next_producer_id
            )
        yield from self.access.security_records()

    # -- replaying ---------------------------------------------------------------------------

    def replay(self, record: MetadataRecord, offset: int) -> None:
        """Change the state by one record of the log."""
        self._replay(record, offset, ImageDelta())

    def replay_all(self, records: Iterable[tuple[int, MetadataRecord]]) -> ImageDelta:
        """Replay records with their offsets and say what changed, net."""
        delta = ImageDelta()
        for offset, record in records:
            self._replay(record, offset, delta)
        delta.end_offset = self.end_offset
        return delta

    def _replay(self, record: MetadataRecord, offset: int, delta: ImageDelta) -> None:
        if isinstance(record, BeginTransactionRecord):
            if self._transaction is not None:
                raise UnappliableRecord(f"offset {offset} begins a transaction inside another")
            self._transaction = []
            return
        if isinstance(record, EndTransactionRecord | AbortTransactionRecord):
            if self._transaction is None:
                raise UnappliableRecord(f"offset {offset} ends a transaction that never began")
            pending, self._transaction = self._transaction, None
            if isinstance(record, EndTransactionRecord):
                for earlier, buffered in pending:
                    self._apply(buffered, earlier, delta)
        elif self._transaction is not None:
            self._transaction.append((offset, record))
            return
        else:
            self._apply(record, offset, delta)
        self.end_offset = offset + 1

    def _apply(self, record: MetadataRecord, offset: int, delta: ImageDelta) -> None:
        match record:
            case PartitionChangeRecord():
                self._topics.change_partition(record, delta)
            case PartitionRecord():
                self._topics.set_partition(record, delta)
            case NoOpRecord() | ZkMigrationStateRecord():
                pass
            case ConfigRecord():
                self._set_config(record, delta)
            case TopicRecord():
                self._topics.create(record, delta)
            case RemoveTopicRecord():
                topic = self._topics.remove(record.topic_id, delta)
                if self.configs.pop((TOPIC_CONFIG, topic.name), None) is not None:
                    delta.configs[TOPIC_CONFIG, topic.name] = None
            case ClearElrRecord():
                self._topics.clear_elr(record, delta)
            case FeatureLevelRecord():
                self._set_feature(record, delta)
            case ProducerIdsRecord():
                self.next_producer_id = record.next_producer_id
                delta.producer_ids_changed = True
            case RegisterControllerRecord():
                registration = ControllerRegistration.from_record(record)
                self.controllers[record.controller_id] = registration
                delta.controllers[record.controller_id] = registration
            case (
                RegisterBrokerRecord()
                | UnregisterBrokerRecord()
                | BrokerRegistrationChangeRecord()
                | FenceBrokerRecord()
                | UnfenceBrokerRecord()
            ):
                broker_id, after = registration_after(self.brokers, record, offset)
                delta.note_broker(broker_id, self.brokers.pop(broker_id, None), after)
                if after is not None:
                    self.brokers[broker_id] = after
            case BeginTransactionRecord() | EndTransactionRecord() | AbortTransactionRecord():
                invariant(False, "transaction records are never buffered or applied")
            case _:
                self.access.apply(record, delta)

    def _set_config(self, record: ConfigRecord, delta: ImageDelta) -> None:
        resource = (record.resource_type, record.resource_name)
        values = self.configs.setdefault(resource, {})
        if record.value is None:
            values.pop(record.name, None)
        else:
            values[record.name] = record.value
        if not values:
            del self.configs[resource]
        delta.configs[resource] = None

    def _set_feature(self, record: FeatureLevelRecord, delta: ImageDelta) -> None:
        if record.feature_level == 0:
            self.features.pop(record.name, None)
        else:
            self.features[record.name] = record.feature_level
        delta.features[record.name] = None


def difference(before: ClusterImage, after: ClusterImage) -> ImageDelta:
    """Everything in which the later image is another than the earlier one."""
    delta = ImageDelta(end_offset=after.end_offset)
    for topic_id, topic in before.topics_by_id.items():
        if topic_id not in after.topics_by_id:
            delta.topics_deleted[topic_id] = topic
            for index, partition in topic.partitions.items():
                key = TopicIdPartition(topic_id, index)
                delta.note_partition(key, topic.name, partition, None)
    for topic_id, topic in after.topics_by_id.items():
        known = before.topics_by_id.get(topic_id)
        if known is None:
            delta.topics_created[topic_id] = topic
        for index, partition in topic.partitions.items():
            earlier = None if known is None else known.partitions.get(index)
            if earlier != partition:
                key = TopicIdPartition(topic_id, index)
                delta.note_partition(key, topic.name, earlier, partition)
    for broker_id in _changed(before.brokers, after.brokers):
        delta.note_broker(broker_id, before.brokers.get(broker_id), after.brokers.get(broker_id))
    for controller_id, registration in after.controllers.items():
        if before.controllers.get(controller_id) != registration:
            delta.controllers[controller_id] = registration
    delta.configs = _changed(before.configs, after.configs)
    delta.features = _changed(before.features, after.features)
    delta.quotas = _changed(before.access.quotas, after.access.quotas)
    delta.credentials = _changed(before.access.credentials, after.access.credentials)
    delta.access_rules = _changed(before.access.rules, after.access.rules)
    delta.tokens = _changed(before.access.tokens, after.access.tokens)
    delta.producer_ids_changed = before.next_producer_id != after.next_producer_id
    return delta


def _changed(before: Mapping[K, V], after: Mapping[K, V]) -> dict[K, None]:
    """The keys that came, went, or have another value."""
    keys = dict.fromkeys((*before, *after))
    return {key: None for key in keys if before.get(key) != after.get(key)}
