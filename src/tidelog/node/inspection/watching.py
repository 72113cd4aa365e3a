"""What those who look at a node are told: everything once, then what changed since the last look.

Invariant  A look takes no more than `TOLD_MAX` replicas, so that its cost is bounded whatever the
           load; the rest waits for the next one, and changes of leaders and in-sync sets go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Final, NamedTuple

from tidelog.controller.image_delta import ImageDelta
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.inspection.state import (
    Json,
    JsonObject,
    metadata_state,
    removed_state,
    replica_state,
)
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.replicas import Replicas
from tidelog.observe.live_watch import LiveWatch

TOLD_MAX: Final = 256
MAGNIFIED_MAX: Final = 4


class ToldPartitions(NamedTuple):
    """Some partitions, and how many more there are to tell of."""

    partitions: list[JsonObject]
    left: int


class MagnifiedHappenings(NamedTuple):
    """What happened to partitions under the microscope."""

    happened: list[JsonObject]
    dropped: int
    epochs: dict[TopicPartition, Json]
    """The leader epochs of those logs with their first offsets, where they are new."""


class Watching:
    """The node's side of a live view."""

    def __init__(self, watch: LiveWatch, cluster: ClusterView, replicas: Replicas) -> None:
        self._watch = watch
        self._cluster = cluster
        self._replicas = replicas
        self._epochs: dict[TopicPartition, Json] = {}

    def begin(self) -> None:
        """Note changes from now on."""
        self._watch.is_on = True

    def end(self) -> None:
        """Nobody looks any more."""
        self._watch.forget()
        self._epochs.clear()

    def magnify(self, partitions: Iterable[TopicPartition]) -> None:
        """Note what happens to these; their epochs are told anew."""
        self._watch.magnified = frozenset(partitions)
        self._epochs.clear()

    def metadata_changed(self, delta: ImageDelta, now: Now) -> None:
        """The image holds something new."""
        if self._watch.is_on:
            for key, change in delta.partitions.items():
                self._watch.metadata[TopicPartition(change.topic, key.partition)] = None

    # -- everything ----------------------------------------------------------------------------

    def replicas(self) -> Sequence[TopicPartition]:
        """The replicas that are hosted now."""
        return [partition.name for partition in self._replicas]

    def partitions(self) -> Sequence[TopicPartition]:
        """The partitions of the cluster."""
        return [
            TopicPartition(topic.name, index)
            for topic in self._cluster.image.topics_by_id.values()
            for index in topic.partitions
        ]

    def describe_replicas(self, names: Iterable[TopicPartition]) -> list[JsonObject]:
        """Those of them that are hosted, and that the others are not."""
        found = ((name, self._replicas.get(name)) for name in names)
        return [
            removed_state(name) if partition is None else replica_state(partition)
            for name, partition in found
        ]

    def describe_partitions(self, names: Iterable[TopicPartition]) -> list[JsonObject]:
        """Those of them that the metadata has, and that the others are gone."""
        found = ((name, self._cluster.image.partition(*name)) for name in names)
        return [
            removed_state(name) if image is None else metadata_state(name, image)
            for name, image in found
        ]

    # -- changes -------------------------------------------------------------------------------

    def changed_replicas(self) -> ToldPartitions:
        """The next of those that changed since they were last told of."""
        changed, moved = self._watch.changed, self._watch.moved
        names = list(_take(changed, TOLD_MAX))
        for name in names:
            moved.pop(name, None)
        names += _take(moved, TOLD_MAX - len(names))
        return ToldPartitions(self.describe_replicas(names), len(changed) + len(moved))

    def changed_partitions(self) -> ToldPartitions:
        """The same for partitions of the cluster."""
        names = list(_take(self._watch.metadata, TOLD_MAX))
        return ToldPartitions(self.describe_partitions(names), len(self._watch.metadata))

    def happenings(self) -> MagnifiedHappenings:
        """What happened under the microscope since the last time."""
        watch = self._watch
        happened: list[JsonObject] = [dict(each) for each in watch.happened]
        dropped, watch.dropped = watch.dropped, 0
        watch.happened.clear()
        epochs: dict[TopicPartition, Json] = {}
        for name in watch.magnified:
            partition = self._replicas.get(name)
            if partition is not None:
                starts: Json = [list(start) for start in partition.log.epochs.entries]
                if self._epochs.get(name) != starts:
                    epochs[name] = self._epochs[name] = starts
        return MagnifiedHappenings(happened, dropped, epochs)


def _take(waiting: dict[TopicPartition, None], most: int) -> Iterator[TopicPartition]:
    """The first of them, which then wait no longer."""
    taken = tuple(islice(waiting, most))
    for name in taken:
        del waiting[name]
    yield from taken
