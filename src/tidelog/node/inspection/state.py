"""What a node knows, as plain values that become JSON: itself, the quorum, brokers, replicas.

Invariant  A value is made of strings, numbers, booleans, None, lists and dicts of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from tidelog import __version__
from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import MetadataRecord
from tidelog.model.ids import TopicPartition, uuid_text
from tidelog.model.time import Now
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.quorum.quorum import Quorum
from tidelog.replication.partition import Partition
from tidelog.storage.log_directory import LogDirectory

Json: TypeAlias = "str | int | float | bool | Sequence[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]


def node_state(cluster: ClusterView) -> JsonObject:
    """Who this node is."""
    return {
        "node": cluster.node_id,
        "version": __version__,
        "cluster_id": cluster.cluster_id,
        "roles": list(cluster.config.process_roles),
    }


def directories_state(directories: Sequence[LogDirectory]) -> list[JsonObject]:
    """Where it keeps its logs, and what is wrong with that."""
    return [
        {
            "path": directory.path,
            "id": uuid_text(directory.identity.directory_id),
            "offline": directory.offline_reason,
        }
        for directory in directories
    ]


def quorum_state(quorum: Quorum[MetadataRecord], now: Now) -> JsonObject:
    """Who leads the metadata log, and how far everyone is; only its leader knows the latter."""
    described = quorum.describe(now)
    end = quorum.log.end_offset
    known = {} if described is None else {each.replica_id: each for each in described.voters}
    voters: list[JsonObject] = []
    for voter in quorum.voters.voters:
        progress = known.get(voter.voter_id)
        held = None if progress is None else progress.log_end_offset
        lag = None if held is None else end - max(held, 0)
        voters.append({"id": voter.voter_id, "log_end_offset": held, "lag": lag})
    return {
        "leader": quorum.leader_id,
        "epoch": quorum.epoch,
        "role": quorum.role.name,
        "high_watermark": quorum.replica.high_watermark,
        "log_end_offset": end,
        "voters": voters,
    }


def brokers_state(cluster: ClusterView) -> list[JsonObject]:
    """The brokers as the metadata that this node has applied knows them."""
    return [
        {
            "id": broker_id,
            "epoch": broker.broker_epoch,
            "fenced": broker.fenced,
            "shutting_down": broker.in_controlled_shutdown,
            "rack": broker.rack,
            "endpoints": [
                {"name": point.name, "host": point.host, "port": point.port}
                for point in broker.endpoints
            ],
        }
        for broker_id, broker in sorted(cluster.image.brokers.items())
    ]


def replica_state(partition: Partition) -> JsonObject:
    """A replica that is hosted here, as this node knows it."""
    leadership, log, leader = partition.leadership, partition.log, partition.leading
    role = "follower" if leader is None else "leader"
    followers: JsonObject | None = None
    if leader is not None:
        followers = {str(each.broker_id): each.end_offset for each in leader.followers.values()}
    return {
        "topic": partition.name.topic,
        "partition": partition.name.partition,
        "role": role if log.health.offline_reason is None else "offline",
        "leader": leadership.leader,
        "leader_epoch": leadership.leader_epoch,
        "partition_epoch": leadership.partition_epoch,
        "replicas": leadership.replicas,
        "isr": leadership.in_sync,
        "min_isr": partition.min_in_sync,
        "log_start_offset": log.start_offset,
        "log_end_offset": log.end_offset,
        "high_watermark": partition.high_watermark.offset,
        "followers": followers,
        "parked": 0 if leader is None else len(leader.produces),
    }


def metadata_state(name: TopicPartition, image: PartitionImage) -> JsonObject:
    """A partition of the cluster, as the metadata has it."""
    return {
        "topic": name.topic,
        "partition": name.partition,
        "leader": image.leader,
        "leader_epoch": image.leader_epoch,
        "partition_epoch": image.partition_epoch,
        "replicas": image.replicas,
        "isr": image.isr,
        "eligible": image.elr,
    }


def removed_state(name: TopicPartition) -> JsonObject:
    """A partition that is no longer here."""
    return {"topic": name.topic, "partition": name.partition, "removed": True}
