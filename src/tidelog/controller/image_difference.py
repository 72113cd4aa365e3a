"""What lies between two images: how a node that skipped a part of the log learns what changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from tidelog.controller.image import ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import TopicIdPartition

K = TypeVar("K")
V = TypeVar("V")


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
