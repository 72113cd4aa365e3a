"""How fast replicas may be copied from this broker, or to it: so that moving them starves nobody.

A topic names its throttled replicas, each side for itself; a broker has one rate for all of them.

Invariant  Only replicas that are not in sync are held up: no high watermark waits for a throttled
           one.
Invariant  What goes over the rate once is not cut: it is waited for afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.controller.image_delta import ImageDelta
from tidelog.model.config import NodeConfig
from tidelog.model.ids import TopicPartition
from tidelog.model.settings.setting import Setting
from tidelog.model.settings.topic import TopicSettings
from tidelog.node.core.runtime import Runtime
from tidelog.node.quotas.rate import SimpleRate, Windows, throttle_ms

ALL: Final = ("*",)


class ReplicationThrottle:
    """One side of a broker: what it sends as leader, or what it fetches as follower."""

    def __init__(
        self,
        runtime: Runtime,
        config: NodeConfig,
        replicas: Setting[tuple[str, ...]],
        limit_in: Callable[[NodeConfig], int],
    ) -> None:
        """`replicas` is the setting in which topics name them."""
        self._runtime = runtime
        self._node_id = config.node_id
        self._replicas = replicas
        self._limit_in = limit_in
        size_ms = config.replication_quota_window_size_seconds * 1000
        self._rate = SimpleRate(Windows(config.replication_quota_window_num, size_ms))
        self._limit = limit_in(config)
        self._topics: dict[str, frozenset[int] | None] = {}
        """Partitions whose replica here is throttled; None is all of a topic."""
        self.is_set = False
        """Whether any replica is throttled."""

    def reconfigure(self, config: NodeConfig) -> None:
        """The settings of this broker changed."""
        self._limit = self._limit_in(config)

    def metadata_changed(self, image: ClusterImage, delta: ImageDelta) -> None:
        """Topics may name other replicas, or be gone."""
        for kind, topic in delta.configs:
            if kind == TOPIC_CONFIG:
                self._name(topic, image.config(TOPIC_CONFIG, topic))
        for deleted in delta.topics_deleted.values():
            if deleted.name not in image.topics_by_name:
                self._topics.pop(deleted.name, None)
        self.is_set = bool(self._topics)

    def covers(self, name: TopicPartition) -> bool:
        """Whether this replica is a throttled one."""
        topic, partition = name
        if topic not in self._topics:
            return False
        partitions = self._topics[topic]
        return partitions is None or partition in partitions

    def is_exceeded(self) -> bool:
        """Whether throttled replicas have to wait."""
        return self.bytes_per_second > self._limit

    @property
    def bytes_per_second(self) -> float:
        """How fast throttled replicas were copied lately."""
        return self._rate.per_second(self._runtime.now.monotonic_ms)

    def wait_ms(self, at_most: int) -> int:
        """How long it takes until the rate is kept again if nothing is copied meanwhile."""
        if self._limit <= 0:
            return at_most
        now_ms = self._runtime.now.monotonic_ms
        time_ms = throttle_ms(self.bytes_per_second, self._limit, self._rate.window_ms(now_ms))
        return max(1, min(time_ms, at_most))

    def record(self, size: int) -> None:
        """So many bytes of throttled replicas were copied."""
        self._rate.record(size, self._runtime.now.monotonic_ms)

    def _name(self, topic: str, configs: Mapping[str, str]) -> None:
        text = configs.get(self._replicas.name)
        named = () if text is None or not self._replicas.reads(text) else self._replicas.parse(text)
        if not named:
            self._topics.pop(topic, None)
        elif named == ALL:
            self._topics[topic] = None
        else:
            pairs = (pair.partition(":") for pair in named)
            self._topics[topic] = frozenset(
                int(partition) for partition, _, broker in pairs if int(broker) == self._node_id
            )


class ReplicationThrottles:
    """Both sides of a broker."""

    def __init__(self, runtime: Runtime, config: NodeConfig) -> None:
        self.leader: Final = ReplicationThrottle(
            runtime,
            config,
            TopicSettings.leader_replication_throttled_replicas,
            lambda config: config.leader_replication_throttled_rate,
        )
        self.follower: Final = ReplicationThrottle(
            runtime,
            config,
            TopicSettings.follower_replication_throttled_replicas,
            lambda config: config.follower_replication_throttled_rate,
        )

    def metadata_changed(self, image: ClusterImage, config: NodeConfig, delta: ImageDelta) -> None:
        """Settings of brokers or topics may have changed."""
        for side in (self.leader, self.follower):
            if any(kind == BROKER_CONFIG for kind, _ in delta.configs):
                side.reconfigure(config)
            side.metadata_changed(image, delta)
