"""The logs of this node, brought in line with the metadata.

Invariant  Deletions come before new leaders, new leaders before new followers.
Invariant  A log on disk that the metadata does not place here, under its topic id, is set aside:
           never served and never deleted (D22).
Invariant  A directory that failed is served no more, and what it holds is not begun anew in
           another one; without the directory of the metadata log the node stops.
Invariant  Logs are loaded and closed by jobs, and no partition is served before all are loaded.
Invariant  A new log gets the name of a deleted one only after the disk has forgotten what was
           written down about that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import PartitionImage
from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.model.time import Now
from tidelog.node.control.alter_partitions import AlterPartitions
from tidelog.node.control.directory_assignments import DirectoryAssignments
from tidelog.node.core.checkpointing import lower
from tidelog.node.core.delayed_requests import DelayedRequests
from tidelog.node.core.effects import Lane
from tidelog.node.core.runtime import Runtime
from tidelog.node.core.signal import Signal
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.node.metadata.departures import Departures
from tidelog.node.replicas.flushes import Flushes
from tidelog.node.replicas.live_brokers import LiveBrokers
from tidelog.node.replicas.replica_fetchers import ReplicaFetchers
from tidelog.node.replicas.replicas import Replicas
from tidelog.node.replicas.topic_rules import TopicRules
from tidelog.observe.events import (
    LogDirectoryOffline,
    LogRecovered,
    TopicCreated,
    TopicDeleted,
)
from tidelog.replication.messages import LeaderAndIsr
from tidelog.replication.partition import Partition
from tidelog.replication.replica_context import ReplicaContext
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import Loading, LogDirectory
from tidelog.storage.partition_log import PartitionLog


class HostingContext(NamedTuple):
    """What hosting needs of the node."""

    runtime: Runtime
    cluster: ClusterView
    directories: Sequence[LogDirectory]
    replicas: Replicas
    flushes: Flushes
    fetchers: ReplicaFetchers
    departures: Departures
    delayed_requests: DelayedRequests
    assignments: DirectoryAssignments
    alter_partitions: AlterPartitions


class Hosting:
    """Creates, loads, deletes and flushes the logs of this node."""

    def __init__(self, context: HostingContext) -> None:
        runtime, cluster = context.runtime, context.cluster
        self._context = context
        self._rules = TopicRules(cluster)
        self._replica_context = ReplicaContext(
            eligibility=LiveBrokers(cluster),
            propose=context.alter_partitions.propose,
            announce=runtime.announce,
            identify=context.flushes.identify,
            lag_max_ms=cluster.config.replica_lag_time_max_ms,
            fetch_backoff_ms=cluster.config.replica_fetch_backoff_ms,
            counters=runtime.counters,
            watch=runtime.watch,
        )
        self.role_changed: Signal[[Partition, Now]] = Signal()
        """An epoch of a partition began here."""
        self.removed: Signal[[TopicPartition, str]] = Signal()
        """A partition is no longer hosted, and why."""
        self._loaded = False
        self._loading: Loading | None = None
        self._found: list[tuple[LogDirectory, Loading]] = []
        """What was loaded and waits for the other directories."""
        self._awaited: dict[TopicPartition, bool] = {}
        """Partitions that wait for the disk to forget another one of their name, and whether they
        are new."""
        self._failed: set[str] = set()

    @property
    def previous_broker_epoch(self) -> int:
        """Of the last clean stop, if all directories tell of the same one."""
        epochs = {directory.previous_broker_epoch for directory in self._context.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    # -- loading -------------------------------------------------------------------------------

    def load(self, now: Now, then: Callable[[Now], None]) -> None:
        """Load every log the metadata knows, set aside the others, take the roles given to us.

        What was loaded is compared with the metadata when all of it is there, at once: what changes
        while the next directory is loaded would be missed otherwise.
        """
        self._load_next(iter(self._context.directories), now, then)

    def _load_next(
        self, directories: Iterator[LogDirectory], now: Now, then: Callable[[Now], None]
    ) -> None:
        for directory in directories:
            with suppress(DiskError):  # noted in `offline_reason`
                self._loading = directory.loading(now, self._config_of)
                go_on = partial(self._load_next, directories, then=then)
                self._load_elsewhere(directory, self._loading, go_on)
                return
        self._loading = None
        self._loaded = True
        found, self._found = self._found, []
        for directory, loading in found:
            self._take_over(directory, loading)
        for topic, index, partition in list(
            self._context.cluster.image.partitions_of(self._context.cluster.node_id)
        ):
            name = TopicPartition(topic.name, index)
            self._take_role(name, topic.topic_id, partition, now, is_new=False)
        then(now)

    def _load_elsewhere(
        self, directory: LogDirectory, loading: Loading, then: Callable[[Now], None]
    ) -> None:
        def finished(now: Now, error: str | None) -> None:
            if error is not None:
                directory.health.fail(error)
            if not loading.is_given_up:
                if error is None:
                    self._found.append((directory, loading))
                then(now)

        self._context.runtime.jobs.run(Lane.LONG, loading.run, finished)

    def give_up_loading(self) -> None:
        """The node is about to stop: what is not loaded yet need not be."""
        if self._loading is not None:
            self._loading.is_given_up = True

    def _take_over(self, directory: LogDirectory, loading: Loading) -> None:
        with suppress(DiskError):  # noted in `offline_reason`
            for name, log in list(directory.loaded(loading).items()):
                if self._is_stray(log):
                    directory.set_aside_stray(name)
                    continue
                if not directory.was_clean:
                    self._tell_recovery(log)
                log.config = self._config_of(name)  # it may have changed meanwhile
                high_watermark = directory.high_watermarks.get(name, 0)
                self._host(log, high_watermark)

    def _is_stray(self, log: PartitionLog) -> bool:
        topic = self._context.cluster.image.topics_by_name.get(log.partition.topic)
        if topic is None or topic.topic_id != log.topic_id:
            return True
        partition = topic.partitions.get(log.partition.partition)
        return partition is None or self._context.cluster.node_id not in partition.replicas

    def _config_of(self, name: TopicPartition) -> LogConfig:
        return self._rules.of(name.topic).log

    def _tell_recovery(self, log: PartitionLog) -> None:
        self._context.runtime.announce(
            LogRecovered(
                partition=log.partition,
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                cut_bytes=log.cut_bytes,
                damaged=tuple(
                    f"{damage.first_offset} to {damage.next_offset}" for damage in log.damage
                ),
                cause="the last stop was not clean",
            )
        )

    # -- following the metadata ----------------------------------------------------------------

    def apply(self, delta: ImageDelta, now: Now) -> None:
        """Act on what the metadata changed."""
        self._forget_rules(delta)
        if not self._loaded:
            return
        for topic in delta.topics_deleted.values():
            self._context.runtime.announce(
                TopicDeleted(topic=topic.name, topic_id=topic.topic_id, cause="metadata")
            )
        for topic in delta.topics_created.values():
            self._context.runtime.announce(
                TopicCreated(
                    topic=topic.name,
                    topic_id=topic.topic_id,
                    partitions=len(topic.partitions),
                    replication_factor=len(topic.partitions[0].replicas),
                    cause="metadata",
                )
            )
        for key, change in delta.partitions.items():
            name = TopicPartition(change.topic, key.partition)
            if change.after is None or self._context.cluster.node_id not in change.after.replicas:
                self._delete(name, key.topic_id, now)
        for is_leader in (True, False):
            for key, change in delta.partitions.items():
                after, name = change.after, TopicPartition(change.topic, key.partition)
                if (
                    after is not None
                    and self._context.cluster.node_id in after.replicas
                    and (after.leader == self._context.cluster.node_id) is is_leader
                ):
                    is_new = change.before is None
                    self._take_role(name, key.topic_id, after, now, is_new=is_new)
        self._apply_configs(delta, now)
        if delta.brokers:
            self._context.departures.apply(delta.brokers, now)
            self._context.fetchers.brokers_changed(now)
            for partition in self._context.replicas:
                if partition.leading is not None:
                    partition.leading.look_again(now)
        self._context.delayed_requests.look_again()

    def _forget_rules(self, delta: ImageDelta) -> None:
        for kind, name in delta.configs:
            if kind == BROKER_CONFIG:
                self._rules.forget_all()
            elif kind == TOPIC_CONFIG:
                self._rules.forget(name)
        for topic in delta.topics_deleted.values():
            self._rules.forget(topic.name)

    def _delete(self, name: TopicPartition, topic_id: UUID, now: Now) -> None:
        hosted = self._context.replicas.get(name)
        if hosted is not None and hosted.log.topic_id != topic_id:
            return
        self._awaited.pop(name, None)
        self._context.fetchers.forget(name)
        self._context.assignments.forget(name)
        self._context.replicas.abandon(name)
        self.removed.tell(name, "this broker no longer hosts the partition")
        for directory in self._context.directories:
            if name in directory.logs:
                with suppress(DiskError):  # noted in `offline_reason`
                    directory.delete_log(name, now)

    def _take_role(
        self,
        name: TopicPartition,
        topic_id: UUID,
        image: PartitionImage,
        now: Now,
        *,
        is_new: bool,
    ) -> None:
        partition = self._context.replicas.get(name)
        if partition is None:
            if name in self._awaited:
                return
            partition = self._create(name, topic_id, image, now, is_new=is_new)
        if partition is None:
            if name not in self._awaited:
                self._context.replicas.lose(name)
                self._context.assignments.lost(name, topic_id, image)
            return
        self._context.assignments.compare(partition, image)
        began = partition.apply(
            LeaderAndIsr(
                leader=image.leader,
                leader_epoch=image.leader_epoch,
                partition_epoch=image.partition_epoch,
                replicas=image.replicas,
                in_sync=image.isr,
                adding=image.adding,
                removing=image.removing,
                recovery_state=image.recovery_state,
            ),
            now,
        )
        if began:
            self._context.fetchers.role_changed(partition, now)
            self.role_changed.tell(partition, now)

    def _create(
        self,
        name: TopicPartition,
        topic_id: UUID,
        image: PartitionImage,
        now: Now,
        *,
        is_new: bool,
    ) -> Partition | None:
        """An empty replica; None when its directory failed, or when it must wait for the disk."""
        directory = self._directory_for(
            image.directory_of(self._context.cluster.node_id), is_new=is_new
        )
        if directory is None:
            return None
        forgetting = directory.forgetting(name)
        if forgetting is not None:
            self._awaited[name] = is_new
            lower(
                self._context.runtime.jobs, forgetting, lambda later: self._create_now(name, later)
            )
            return None
        with suppress(DiskError):  # noted in `offline_reason`
            log = directory.create_log(name, topic_id, self._rules.of(name.topic).log, now)
            return self._host(log, 0)
        return None

    def _create_now(self, name: TopicPartition, now: Now) -> None:
        """The disk has forgotten a log of that name: make the new one, if it is still wanted."""
        is_new = self._awaited.pop(name, None)
        topic = self._context.cluster.image.topics_by_name.get(name.topic)
        image = None if topic is None else topic.partitions.get(name.partition)
        if is_new is None or topic is None or image is None:
            return
        if self._context.cluster.node_id in image.replicas:
            self._take_role(name, topic.topic_id, image, now, is_new=is_new)

    def _directory_for(self, directory_id: UUID, *, is_new: bool) -> LogDirectory | None:
        """The directory the metadata names, else the one with the fewest logs.

        A replica that is not new and not here may lie in a directory that failed.
        """
        directories = self._context.directories
        online = [directory for directory in directories if directory.offline_reason is None]
        for directory in directories:
            if directory.identity.directory_id == directory_id:
                return directory if directory in online else None
        if not online or (len(online) < len(directories) and not is_new):
            return None
        return min(online, key=lambda directory: len(directory.logs))

    def _host(self, log: PartitionLog, high_watermark: int) -> Partition:
        log.producers.verify_transactions = (
            self._context.cluster.config.transaction_partition_verification_enable
        )
        rules = self._rules.of(log.partition.topic)
        partition = Partition(
            log,
            self._context.cluster.node_id,
            high_watermark,
            rules.batches,
            rules.min_in_sync,
            self._replica_context,
        )
        self._context.replicas.host(partition)
        return partition

    def _apply_configs(self, delta: ImageDelta, now: Now) -> None:
        changed = {name for kind, name in delta.configs if kind == TOPIC_CONFIG}
        everything = any(kind == BROKER_CONFIG for kind, _ in delta.configs)
        if not changed and not everything:
            return
        for partition in self._context.replicas:
            topic = partition.name.topic
            if everything or topic in changed:
                partition.configure(*self._rules.of(topic), now)

    # -- failing and stopping ------------------------------------------------------------------

    def offline_directories(self) -> tuple[UUID, ...]:
        """Directories that have failed, for the controller to know."""
        return tuple(
            directory.identity.directory_id
            for directory in self._context.directories
            if directory.offline_reason is not None
        )

    def note_failures(self) -> str | None:
        """Tell of directories that failed since the last look; why the node must stop, if it must.

        Asked at the end of every tick.
        """
        for directory in self._context.directories:
            reason = directory.health.offline_reason
            if reason is not None and directory.path not in self._failed:
                self._failed.add(directory.path)
                self._context.runtime.announce(
                    LogDirectoryOffline(directory=directory.path, cause=reason)
                )
                for partition in self._context.replicas:
                    if partition.log.health is directory.health:
                        self._went_offline(partition)
                if directory.path == self._context.cluster.config.metadata_directory:
                    return f"the directory of the metadata log failed: {reason}"
        return None

    def _went_offline(self, partition: Partition) -> None:
        """Its directory failed: it asks for nothing more, lest its leader take it for one in sync
        that has nothing to wait for."""
        self._context.fetchers.forget(partition.name)
        partition.went_offline()

    def close(self, broker_epoch: int) -> None:
        """Close every log and mark the stop as clean; DiskError where that cannot be said.

        Blocks: it is the node's last job.
        """
        for directory in self._context.directories:
            directory.close(broker_epoch, self._context.replicas.high_watermarks(directory.logs))
        for directory in self._context.directories:
            directory.health.require()
