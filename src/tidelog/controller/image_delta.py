"""What a run of metadata records changed: the node acts on this, not on the records.

Each entry holds the state before the first and after the last change of the run, so that what
was changed back and forth shows as its net effect.

A broker applies it in this order: partitions without an `after` are deleted; partitions this
broker leads become leaders; those it follows become followers; coordinators of internal topics
move; then configs, quotas, credentials and access rules take effect.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias
from uuid import UUID

from tidelog.controller.partition_image import PartitionImage, TopicIdPartition, TopicImage
from tidelog.controller.registrations import BrokerRegistration, ControllerRegistration
from tidelog.protocol.stored.metadata import ClientQuotaRecordEntityData

ConfigResource: TypeAlias = tuple[int, str]
QuotaOwner: TypeAlias = tuple[ClientQuotaRecordEntityData, ...]


@dataclass(slots=True)
class PartitionDelta:
    """One partition before and after; None where it did not or does not exist."""

    topic: str
    before: PartitionImage | None
    after: PartitionImage | None


@dataclass(slots=True)
class BrokerDelta:
    """One broker before and after; None where it was not or is no longer registered."""

    before: BrokerRegistration | None
    after: BrokerRegistration | None


@dataclass(slots=True)
class ImageDelta:
    """Everything that changed, in the order in which it was first touched."""

    end_offset: int = 0
    """Exclusive end of the log that the image holds after this delta."""
    topics_created: dict[UUID, TopicImage] = field(default_factory=dict)
    topics_deleted: dict[UUID, TopicImage] = field(default_factory=dict)
    partitions: dict[TopicIdPartition, PartitionDelta] = field(default_factory=dict)
    brokers: dict[int, BrokerDelta] = field(default_factory=dict)
    controllers: dict[int, ControllerRegistration] = field(default_factory=dict)
    configs: dict[ConfigResource, None] = field(default_factory=dict)
    features: dict[str, None] = field(default_factory=dict)
    quotas: dict[QuotaOwner, None] = field(default_factory=dict)
    credentials: dict[tuple[str, int], None] = field(default_factory=dict)
    access_rules: dict[UUID, None] = field(default_factory=dict)
    tokens: dict[str, None] = field(default_factory=dict)
    producer_ids_changed: bool = False

    def note_partition(
        self,
        key: TopicIdPartition,
        topic: str,
        before: PartitionImage | None,
        after: PartitionImage | None,
    ) -> None:
        """One more step of a partition; one that came and went in this run leaves no trace."""
        known = self.partitions.setdefault(key, PartitionDelta(topic, before, after))
        known.after = after
        if known.before is None and after is None:
            del self.partitions[key]

    def note_broker(
        self, broker_id: int, before: BrokerRegistration | None, after: BrokerRegistration | None
    ) -> None:
        """One more step of a broker's registration."""
        self.brokers.setdefault(broker_id, BrokerDelta(before, after)).after = after
