"""The cluster as this node sees it: the newest metadata, its own place in it, its settings.

Invariant  The image changes by committed records only; who reads it sees all of a batch or nothing.
Invariant  `config` holds the file's settings under those that the cluster has changed since.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, ClusterImage
from tidelog.model.config import NodeConfig
from tidelog.model.ids import NO_EPOCH, NO_LEADER, TopicPartition
from tidelog.protocol.produce import NodeEndpoint


class ClusterNode(NamedTuple):
    """A node of the cluster and where a client finds it."""

    node_id: int
    host: str
    port: int
    rack: str | None
    is_fenced: bool


class ClusterView:
    """What rooms and handlers ask about the cluster."""

    def __init__(self, config: NodeConfig, cluster_id: str) -> None:
        self._file = config
        self.config = config
        self.cluster_id = cluster_id
        self.node_id = config.node_id
        self.broker_epoch = NO_EPOCH
        """Of this process's registration; -1 before the controller has given one."""
        self.image = ClusterImage()

    def reconfigure(self) -> None:
        """Go by what the cluster now sets for all brokers and for this one."""
        self.config = self._file.under(
            self.image.config(BROKER_CONFIG, ""),
            self.image.config(BROKER_CONFIG, str(self.node_id)),
        )

    def topic_name(self, topic_id: UUID) -> str | None:
        """The name behind a topic id."""
        topic = self.image.topics_by_id.get(topic_id)
        return None if topic is None else topic.name

    def is_live(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        registration = self.image.brokers.get(broker_id)
        return registration is not None and not registration.fenced

    def endpoint(self, broker_id: int, listener: str) -> tuple[str, int] | None:
        """Where a live broker can be reached by somebody who uses that listener."""
        if not self.is_live(broker_id):
            return None
        point = self.image.brokers[broker_id].endpoint(listener)
        return None if point is None else (point.host, point.port)

    def brokers(self, listener: str) -> list[ClusterNode]:
        """The registered brokers that have an address for clients of this listener."""
        return [
            ClusterNode(broker_id, point.host, point.port, registration.rack, registration.fenced)
            for broker_id, registration in sorted(self.image.brokers.items())
            if (point := registration.endpoint(listener)) is not None
        ]

    def live_brokers(self, listener: str) -> list[ClusterNode]:
        """The brokers that a client of this listener can use."""
        return [node for node in self.brokers(listener) if not node.is_fenced]

    def controllers(self) -> list[ClusterNode]:
        """The controllers, as a client of the controller listener sees them."""
        return [
            ClusterNode(node_id, point.host, point.port, None, False)
            for node_id, registration in sorted(self.image.controllers.items())
            for point in registration.endpoints[:1]
        ]

    def passes_on(self, listener: str) -> int:
        """The broker where clients send what a controller decides, to be passed on.

        Preferably this one: whoever asks has just reached it.
        """
        live = [node.node_id for node in self.live_brokers(listener)]
        if self.node_id in live:
            return self.node_id
        return live[0] if live else NO_LEADER

    def current_leader(self, name: TopicPartition) -> tuple[int, int]:
        """Who leads a partition and in which epoch, for a client that asked somebody else."""
        partition = self.image.partition(*name)
        if partition is None:
            return NO_LEADER, NO_EPOCH
        return partition.leader, partition.leader_epoch

    def leader_endpoints(self, leaders: Iterable[int], listener: str) -> list[NodeEndpoint]:
        """Addresses of the leaders that an answer names, as users of that listener reach them."""
        found = []
        for leader in sorted(set(leaders)):
            point = self.endpoint(leader, listener)
            if point is not None:
                rack = self.image.brokers[leader].rack
                found.append(NodeEndpoint(leader, *point, rack))
        return found
