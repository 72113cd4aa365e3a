"""One pass over the replicas of a node, and on a controller over all partitions of the cluster.

Invariant  It is done in slices, so that others get their turn; what it says of one partition is
           true at the moment in which it was looked at.
Invariant  Lists of partitions are bounded: with ten thousand of them nobody reads a page of lines.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Sequence
from heapq import nlargest
from typing import Final, NamedTuple

from tidelog.controller.partition_image import PartitionImage
from tidelog.controller.records import RECOVERED
from tidelog.model.ids import TopicPartition
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.replicas import Replicas
from tidelog.replication.leader import LeaderReplica
from tidelog.replication.partition import Partition
from tidelog.storage.log_place import DirectoryHealth

SLICE: Final = 250
NAMED_MAX: Final = 100
"""So many partitions or topics are named in one metric."""


class FollowerLag(NamedTuple):
    """How far a follower is behind its leader, in records, as the leader knows it."""

    lag: int
    partition: TopicPartition
    replica: int


class FetcherLag(NamedTuple):
    """How much of what is committed a follower here has yet to fetch, in records."""

    lag: int
    partition: TopicPartition


class HighWatermarkLag(NamedTuple):
    """How much a leader holds that is not committed, in records."""

    lag: int
    partition: TopicPartition


class Survey:
    """What was found."""

    def __init__(self) -> None:
        self.hosted = 0
        self.led = 0
        self.under_replicated = 0
        self.under_min_isr = 0
        self.at_min_isr = 0
        self.reassigning = 0
        self.offline_replicas = 0
        self.parked = 0
        """Acknowledgements that wait for a high watermark."""
        self.follower_lags: list[FollowerLag] = []
        self.fetcher_lags: list[FetcherLag] = []
        self.high_watermark_lags: list[HighWatermarkLag] = []
        self.topic_bytes: Counter[str] = Counter()
        self.directory_bytes: Counter[DirectoryHealth] = Counter()
        """By the health that the logs of a directory share."""
        self.assigned = 0
        """Replicas that the metadata places here; not all may be hosted."""
        self.out_of_sync: list[TopicPartition] = []
        self.recovering: list[TopicPartition] = []
        """Led here, after an election that may have lost something."""
        self.partitions = 0
        """Of the cluster, and so are those without a leader, and those not led as preferred."""
        self.leaderless = 0
        self.not_preferred = 0

    @property
    def worst_follower_lags(self) -> Sequence[FollowerLag]:
        return nlargest(NAMED_MAX, self.follower_lags)

    @property
    def worst_fetcher_lags(self) -> Sequence[FetcherLag]:
        return nlargest(NAMED_MAX, self.fetcher_lags)

    @property
    def worst_high_watermark_lags(self) -> Sequence[HighWatermarkLag]:
        return nlargest(NAMED_MAX, self.high_watermark_lags)

    # -- looking -------------------------------------------------------------------------------

    def look_at_replica(self, partition: Partition) -> None:
        """One that is hosted here."""
        self.hosted += 1
        log = partition.log
        if log.health.offline_reason is not None:
            self.offline_replicas += 1
            return
        size = log.size_bytes
        self.topic_bytes[partition.name.topic] += size
        self.directory_bytes[log.health] += size
        if partition.leading is not None:
            self._look_at_leader(partition, partition.leading)
        elif partition.following is not None and partition.following.lag > 0:
            self.fetcher_lags.append(FetcherLag(partition.following.lag, partition.name))

    def _look_at_leader(self, partition: Partition, leader: LeaderReplica) -> None:
        self.led += 1
        leadership, name = partition.leadership, partition.name
        members = len(leader.in_sync.committed)
        wanted = min(partition.min_in_sync, len(leadership.replicas))
        self.under_replicated += members < len(leadership.replicas) - len(leadership.adding)
        self.under_min_isr += members < wanted
        self.at_min_isr += members == wanted
        self.reassigning += bool(leadership.adding or leadership.removing)
        self.parked += len(leader.produces)
        end = partition.log.end_offset
        uncommitted = end - partition.high_watermark.offset
        if uncommitted > 0:
            self.high_watermark_lags.append(HighWatermarkLag(uncommitted, name))
        for follower in leader.followers.values():
            if follower.end_offset < end:
                lag = end - max(follower.end_offset, partition.log.start_offset)
                self.follower_lags.append(FollowerLag(lag, name, follower.broker_id))

    def look_at_assignment(self, name: TopicPartition, image: PartitionImage, node_id: int) -> None:
        """One that the metadata places here."""
        self.assigned += 1
        if node_id not in image.isr:
            self.out_of_sync.append(name)
        if image.recovery_state != RECOVERED and image.leader == node_id:
            self.recovering.append(name)

    def look_at_partition(self, image: PartitionImage) -> None:
        """One of the cluster."""
        self.partitions += 1
        self.leaderless += not image.has_leader
        self.not_preferred += image.leader != image.replicas[0]


def survey(cluster: ClusterView, replicas: Replicas) -> Generator[None, None, Survey]:
    """Look at everything; yields after each slice."""
    found = yield from survey_assignments(cluster, replicas)
    for n, partition in enumerate(tuple(replicas), 1):
        found.look_at_replica(partition)
        if n % SLICE == 0:
            yield
    if cluster.config.is_controller:
        yield from _survey_cluster(cluster, found)
    return found


def survey_assignments(cluster: ClusterView, replicas: Replicas) -> Generator[None, None, Survey]:
    """Look only at what the metadata says of this node: whether all its replicas are in sync."""
    found, node_id = Survey(), cluster.node_id
    assigned = [
        (TopicPartition(topic.name, index), image)
        for topic, index, image in cluster.image.partitions_of(node_id)
    ]
    for n, (name, image) in enumerate(assigned, 1):
        found.look_at_assignment(name, image, node_id)
        found.offline_replicas += replicas.is_lost(name) and replicas.get(name) is None
        if n % (4 * SLICE) == 0:
            yield
    return found


def _survey_cluster(cluster: ClusterView, found: Survey) -> Generator[None, None, None]:
    looked = 0
    for topic in tuple(cluster.image.topics_by_id.values()):
        for image in tuple(topic.partitions.values()):
            found.look_at_partition(image)
            looked += 1
            if looked % (4 * SLICE) == 0:
                yield
