"""What a Metadata answer says about the cluster, as plain values.

Invariant  A view is never changed; a newer answer makes a newer view.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from uuid import UUID

from tidelog.client.errors import RequestRefused
from tidelog.model.errors import ErrorCode
from tidelog.model.ids import NO_LEADER, ZERO_UUID
from tidelog.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic


class BrokerAddress(NamedTuple):
    """A live broker and where it listens."""

    node_id: int
    host: str
    port: int
    rack: str | None


class PartitionView(NamedTuple):
    """One partition as its cluster sees it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...]
    offline: tuple[int, ...]
    error: ErrorCode


class TopicView(NamedTuple):
    """One topic; `partitions` is sorted and empty when `error` is set."""

    name: str
    topic_id: UUID
    internal: bool
    partitions: tuple[PartitionView, ...]
    error: ErrorCode


class ClusterView(NamedTuple):
    """Everything one Metadata answer said."""

    cluster_id: str | None
    controller_id: int
    brokers: Mapping[int, BrokerAddress]
    topics: Mapping[str, TopicView]

    def topic(self, name: str) -> TopicView:
        """The topic, or the refusal its absence or error stands for."""
        found = self.topics.get(name)
        if found is None:
            raise RequestRefused(ErrorCode.unknown_topic_or_partition, f"topic {name}")
        if found.error is not ErrorCode.none:
            raise RequestRefused(found.error, f"topic {name}")
        return found

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; `NO_LEADER` while there is none."""
        for each in self.topic(topic).partitions:
            if each.partition == partition:
                return each.leader if each.leader in self.brokers else NO_LEADER
        raise RequestRefused(ErrorCode.unknown_topic_or_partition, f"partition {topic}-{partition}")


def read_metadata(response: MetadataResponse) -> ClusterView:
    """The view behind a Metadata answer."""
    brokers = {
        broker.node_id: BrokerAddress(broker.node_id, broker.host, broker.port, broker.rack)
        for broker in response.brokers
    }
    topics = {topic.name or "": _topic(topic) for topic in response.topics}
    return ClusterView(response.cluster_id, response.controller_id, brokers, topics)


def _topic(topic: MetadataResponseTopic) -> TopicView:
    partitions = tuple(
        PartitionView(
            each.partition_index,
            each.leader_id,
            each.leader_epoch,
            tuple(each.replica_nodes),
            tuple(each.isr_nodes),
            tuple(each.offline_replicas),
            each.error_code,
        )
        for each in sorted(topic.partitions, key=lambda found: found.partition_index)
    )
    return TopicView(
        topic.name or "",
        topic.topic_id or ZERO_UUID,
        topic.is_internal,
        partitions,
        topic.error_code,
    )
