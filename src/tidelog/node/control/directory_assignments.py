"""Where this broker's replicas lie, told to the controller when it believes something else.

The controller must know, or it could not tell whose leader is gone when a directory fails.

Invariant  A replica that could not be made, or may lie in a failed directory that the metadata does
           not know of, is told as lost, so that somebody else leads.
Invariant  One request is under way at a time; what could not be told, or was refused, is told
           again as long as the metadata has it otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from tidelog.controller.directories import AssignedReplicas, ReplicaDirectory
from tidelog.controller.partition_image import PartitionImage
from tidelog.model.errors import Refusal
from tidelog.model.ids import DIRECTORY_LOST, TopicPartition
from tidelog.model.time import Now
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.replication.partition import Partition
from tidelog.storage.log_directory import LogDirectory

RETRY_MS: Final = 100


class DirectoryAssignments:
    """Replicas that the metadata has in another directory than they are in."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        directories: Sequence[LogDirectory],
        control: ControllerChannel,
    ) -> None:
        self._runtime = runtime
        self._cluster = cluster
        self._directories = directories
        self._control = control
        self._waiting: dict[TopicPartition, ReplicaDirectory] = {}
        self._under_way = False

    def compare(self, partition: Partition, image: PartitionImage) -> None:
        """The metadata says where a replica lies; the directory it is in knows better."""
        name, node_id = partition.name, self._cluster.node_id
        [actual] = [
            directory.identity.directory_id
            for directory in self._directories
            if name in directory.logs
        ] or [image.directory_of(node_id)]
        if actual == image.directory_of(node_id):
            self._waiting.pop(name, None)
        else:
            topic_id = partition.log.topic_id
            self._waiting[name] = ReplicaDirectory(actual, topic_id, name.partition)

    def lost(self, name: TopicPartition, topic_id: UUID, image: PartitionImage) -> None:
        """A replica cannot be here, and if the metadata believes that it is, its leader is none."""
        known = image.directory_of(self._cluster.node_id)
        failed = {
            directory.identity.directory_id
            for directory in self._directories
            if directory.offline_reason is not None
        }
        if known == DIRECTORY_LOST or known in failed:  # the heartbeat tells of those
            self._waiting.pop(name, None)
        else:
            self._waiting[name] = ReplicaDirectory(DIRECTORY_LOST, topic_id, name.partition)

    def forget(self, name: TopicPartition) -> None:
        """The replica is gone from here."""
        self._waiting.pop(name, None)

    def send(self, now: Now) -> None:
        """Tell the controller about all of them at once."""
        if not self._waiting or self._under_way or self._cluster.broker_epoch < 0:
            return
        sent = dict(self._waiting)
        self._under_way = True

        def told(outcome: AssignedReplicas | Refusal, later: Now) -> None:
            accepted: set[ReplicaDirectory] = set()
            if not isinstance(outcome, Refusal):
                accepted = {place for place, refusal in outcome if refusal is None}
            for name, place in sent.items():
                if place in accepted and self._waiting.get(name) == place:
                    del self._waiting[name]
            if accepted.issuperset(sent.values()):
                self._under_way = False
            else:
                self._runtime.deadlines.at(later.monotonic_ms + RETRY_MS, self._rested)

        self._control.assign_directories(now, [*sent.values()], told)

    def _rested(self, now: Now) -> None:
        self._under_way = False
        self.send(now)
