"""The metadata of this node, as group coordinators ask for it: topics and settings of groups."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from tidelog.controller.image import GROUP_CONFIG
from tidelog.controller.partition_image import TopicImage
from tidelog.coordinator.groups.topics import KnownTopic
from tidelog.model.settings.group import GroupTimes, group_times
from tidelog.node.metadata.cluster_view import ClusterView


class GroupMetadata:
    """A `Topics` over the newest metadata, and what groups have set for themselves."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster

    @property
    def version(self) -> int:
        return self._cluster.image.end_offset

    def named(self, name: str) -> KnownTopic | None:
        return _known(self._cluster.image.topics_by_name.get(name))

    def with_id(self, topic_id: UUID) -> KnownTopic | None:
        return _known(self._cluster.image.topics_by_id.get(topic_id))

    def times_of(self, group_id: str) -> GroupTimes:
        """How a group keeps time: by its own settings, else by the broker's."""
        return group_times(self._cluster.image.config(GROUP_CONFIG, group_id), self._cluster.config)

    def names(self) -> Iterable[str]:
        return self._cluster.image.topics_by_name


def _known(topic: TopicImage | None) -> KnownTopic | None:
    return None if topic is None else KnownTopic(topic.name, topic.topic_id, len(topic.partitions))
