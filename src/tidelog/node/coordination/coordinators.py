"""The coordinators on this node: one for each partition of an internal topic that it leads.

Invariant  A key belongs to the partition its hash names among those that the topic has; only the
           leader of that partition answers for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from tidelog.controller.topics import NewTopic
from tidelog.coordinator.internal_topics import InternalTopic, partition_of
from tidelog.coordinator.result import CoordinatorResult
from tidelog.model.errors import Refusal
from tidelog.model.ids import NO_LEADER, TopicPartition
from tidelog.model.time import Now
from tidelog.node.control.controller_channel import ControllerChannel
from tidelog.node.coordination.coordinated_partition import (
    NOT_OURS,
    CoordinatedPartition,
    HostedShard,
    RecordT,
    ShardT,
    State,
)
from tidelog.node.coordination.shard_timers import ShardTimers
from tidelog.node.core.runtime import Runtime
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.replicas.flushes import Flushes
from tidelog.observe.coordinator_events import InternalTopicMissing
from tidelog.replication.partition import Partition

R = TypeVar("R")


class Coordinators(Generic[ShardT, RecordT]):
    """Finds, loads and drops the coordinators of one internal topic."""

    def __init__(
        self,
        runtime: Runtime,
        cluster: ClusterView,
        control: ControllerChannel,
        flushes: Flushes,
        topic: InternalTopic,
        make_shard: Callable[[Partition, ShardTimers[RecordT]], HostedShard[ShardT, RecordT]],
    ) -> None:
        """`make_shard` is given the partition, led by this node, and the timers of a new one."""
        self._runtime = runtime
        self._cluster = cluster
        self._control = control
        self._flushes = flushes
        self._topic = topic
        self._make_shard = make_shard
        self._led: dict[int, CoordinatedPartition[ShardT, RecordT]] = {}
        self._being_created = False
        self._trouble: str | None = None

    # -- finding -------------------------------------------------------------------------------

    def partition_of(self, key: str) -> int:
        """The partition that keeps a key."""
        topic = self._cluster.image.topics_by_name.get(self._topic.name)
        return partition_of(key, self._topic.partitions if topic is None else len(topic.partitions))

    def coordinator_of(self, key: str) -> int:
        """The broker that answers for a key; -1 while there is none."""
        partition = self._cluster.image.partition(self._topic.name, self.partition_of(key))
        return NO_LEADER if partition is None else partition.leader

    @property
    def topic_exists(self) -> bool:
        return self._topic.name in self._cluster.image.topics_by_name

    def create_topic(self, now: Now) -> None:
        """Ask the controller for the internal topic, unless that is under way."""
        if self._being_created or self.topic_exists:
            return
        self._being_created = True

        def created(refusals: dict[str, Refusal]) -> None:
            self._being_created = False
            self._tell_trouble(refusals.get(self._topic.name))

        self._control.create_topics(now, [as_new_topic(self._topic)], created)

    def _tell_trouble(self, refusal: Refusal | None) -> None:
        """Say once why the topic cannot be created: clients only hear that they must wait."""
        trouble = None if refusal is None else refusal.why
        if trouble is not None and trouble != self._trouble:
            self._runtime.announce(InternalTopicMissing(topic=self._topic.name, cause=trouble))
        self._trouble = trouble

    def at(self, partition: int) -> CoordinatedPartition[ShardT, RecordT] | None:
        """The coordinator of a partition, if it is on this node."""
        return self._led.get(partition)

    def active(self) -> Iterator[ShardT]:
        """The shards that are loaded, by partition."""
        for _, led in sorted(self._led.items()):
            if led.state is State.ACTIVE:
                yield led.shard

    @property
    def are_loading(self) -> bool:
        return any(led.state is State.LOADING for led in self._led.values())

    # -- commands ------------------------------------------------------------------------------

    def ask(
        self,
        now: Now,
        key: str,
        command: Callable[[ShardT], CoordinatorResult[RecordT, R] | Refusal],
        then: Callable[[R | Refusal], None],
    ) -> None:
        """Run a command at the coordinator of `key`; `then` gets its reply or a refusal."""
        led = self._led.get(self.partition_of(key))
        if led is None:
            then(NOT_OURS)
        else:
            led.ask(now, command, then)

    def tell_all(
        self, now: Now, command: Callable[[ShardT], CoordinatorResult[RecordT, None]]
    ) -> None:
        """Run a command at every loaded coordinator."""
        for _, led in sorted(self._led.items()):
            if led.state is State.ACTIVE:
                led.ask(now, command, lambda _: None)

    # -- leadership ----------------------------------------------------------------------------

    def role_changed(self, partition: Partition, now: Now) -> None:
        """An epoch of a partition began: load its coordinator, or let go of it."""
        if partition.name.topic != self._topic.name:
            return
        self.forget(partition.name, f"epoch {partition.leader_epoch} began")
        if partition.is_leader:
            led = CoordinatedPartition(
                self._runtime, self._flushes, self._topic, partition, self._make_shard
            )
            self._led[partition.name.partition] = led
            led.load(now)

    def forget(self, name: TopicPartition, cause: str) -> None:
        """This node no longer hosts a partition, or not in the same epoch."""
        if name.topic == self._topic.name:
            led = self._led.pop(name.partition, None)
            if led is not None:
                led.end(cause)


def as_new_topic(topic: InternalTopic) -> NewTopic:
    """The request that creates an internal topic."""
    return NewTopic(
        topic.name, topic.partitions, topic.replication_factor, configs=dict(topic.configs)
    )
