"""The topics of this node's image, as group coordinators ask for them."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tidelog.controller.partition_image import TopicImage
from tidelog.coordinator.groups.topics import KnownTopic
from tidelog.model.ids import INTERNAL_TOPICS
from tidelog.node.broker_state import BrokerState


class ImageTopics:
    """A `Topics` over the newest metadata."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker

    @property
    def version(self) -> int:
        return self._broker.image.end_offset

    def named(self, name: str) -> KnownTopic | None:
        return _known(self._broker.image.topics_by_name.get(name))

    def with_id(self, topic_id: UUID) -> KnownTopic | None:
        return _known(self._broker.image.topics_by_id.get(topic_id))

    def names(self) -> Iterable[str]:
        return (name for name in self._broker.image.topics_by_name if name not in INTERNAL_TOPICS)


def _known(topic: TopicImage | None) -> KnownTopic | None:
    return None if topic is None else KnownTopic(topic.name, topic.topic_id, len(topic.partitions))
