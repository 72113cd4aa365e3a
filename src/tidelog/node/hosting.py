"""The logs of this node, brought in line with the metadata.

Invariant  Deletions come before new leaders, new leaders before new followers.
Invariant  A directory on disk whose topic id the metadata does not know is set aside, never served
           and never deleted (D22).
Invariant  A directory that failed is served no more; without any directory left the node stops.
"""

from __future__ import annotations

from collections.abc import Mapping
from uuid import UUID

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG
from tidelog.controller.image_delta import ImageDelta
from tidelog.controller.partition_image import PartitionImage
from tidelog.model.errors import DiskError
from tidelog.model.ids import TopicPartition
from tidelog.model.settings.topic import TopicSettings
from tidelog.model.time import Now
from tidelog.node.broker_state import BrokerState
from tidelog.node.topic_rules import batch_rules, log_config, topic_settings
from tidelog.observe.events import (
    LogDirectoryOffline,
    LogRecovered,
    PartitionBecameLeader,
    SegmentDeleted,
    TopicCreated,
    TopicDeleted,
)
from tidelog.replication.partition import Leadership, Partition
from tidelog.storage.log_config import LogConfig
from tidelog.storage.log_directory import LogDirectory
from tidelog.storage.partition_log import PartitionLog


class Hosting:
    """Creates, loads, deletes and flushes the logs of this node."""

    def __init__(self, broker: BrokerState) -> None:
        self._broker = broker
        self._loaded = False
        self._announced_offline: set[str] = set()

    @property
    def previous_broker_epoch(self) -> int:
        """Of the last clean stop, if all directories tell of the same one."""
        epochs = {directory.previous_broker_epoch for directory in self._broker.directories}
        return epochs.pop() if len(epochs) == 1 else -1

    # -- loading -------------------------------------------------------------------------------

    def load(self, now: Now) -> None:
        """Load every log the metadata knows, set aside the others, take the roles given to us."""
        broker = self._broker
        for directory in broker.directories:
            was_clean = directory.was_clean
            for name, log in list(directory.load(now, self._config_of).items()):
                topic = broker.image.topics_by_name.get(name.topic)
                if topic is None or topic.topic_id != log.topic_id:
                    directory.set_aside_stray(name)
                    continue
                if not was_clean:
                    self._tell_recovery(log)
                mark = directory.high_watermarks.get(name, 0)
                self._host(log, mark, topic_settings(broker.image, broker.config, name.topic))
        self._loaded = True
        for topic, index, partition in list(broker.image.partitions_of(broker.node_id)):
            self._take_role(TopicPartition(topic.name, index), topic.topic_id, partition, now)

    def _config_of(self, name: TopicPartition) -> LogConfig:
        broker = self._broker
        return log_config(topic_settings(broker.image, broker.config, name.topic), broker.config)

    def _tell_recovery(self, log: PartitionLog) -> None:
        self._broker.announce(
            LogRecovered(
                partition=log.partition,
                start_offset=log.start_offset,
                end_offset=log.end_offset,
                cut_bytes=log.cut_bytes,
                cause="the last stop was not clean",
            )
        )

    # -- following the metadata ----------------------------------------------------------------

    def apply(self, delta: ImageDelta, now: Now) -> None:
        """Act on what the metadata changed."""
        if not self._loaded:
            return
        for topic in delta.topics_deleted.values():
            self._broker.announce(
                TopicDeleted(topic=topic.name, topic_id=topic.topic_id, cause="metadata")
            )
        for topic in delta.topics_created.values():
            self._broker.announce(
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
            if change.after is None or self._broker.node_id not in change.after.replicas:
                self._delete(name, key.topic_id, now)
        for key, change in delta.partitions.items():
            if change.after is not None and self._broker.node_id in change.after.replicas:
                name = TopicPartition(change.topic, key.partition)
                self._take_role(name, key.topic_id, change.after, now)
        self._apply_configs(delta)

    def _delete(self, name: TopicPartition, topic_id: UUID, now: Now) -> None:
        hosted = self._broker.replicas.get(name)
        if hosted is None or hosted.log.topic_id != topic_id:
            return
        self._broker.replicas.abandon(name)
        for directory in self._broker.directories:
            if name in directory.logs:
                directory.delete_log(name, now)

    def _take_role(
        self, name: TopicPartition, topic_id: UUID, image: PartitionImage, now: Now
    ) -> None:
        broker = self._broker
        partition = broker.replicas.get(name) or self._create(name, topic_id, image, now)
        began = partition.apply(
            Leadership(
                leader=image.leader,
                leader_epoch=image.leader_epoch,
                partition_epoch=image.partition_epoch,
                replicas=image.replicas,
                in_sync=image.isr,
            )
        )
        if began and partition.is_leader:
            broker.announce(
                PartitionBecameLeader(
                    partition=name,
                    leader_epoch=image.leader_epoch,
                    start_offset=partition.log.end_offset,
                    cause="the controller chose this replica",
                )
            )

    def _create(
        self, name: TopicPartition, topic_id: UUID, image: PartitionImage, now: Now
    ) -> Partition:
        broker = self._broker
        settings = topic_settings(broker.image, broker.config, name.topic)
        directory = self._directory_for(image.directory_of(broker.node_id))
        log = directory.create_log(name, topic_id, log_config(settings, broker.config), now)
        return self._host(log, 0, settings)

    def _directory_for(self, directory_id: UUID) -> LogDirectory:
        """The directory the metadata names, else the online one with the fewest logs."""
        online = [each for each in self._broker.directories if each.offline_reason is None]
        for directory in online:
            if directory.identity.directory_id == directory_id:
                return directory
        if not online:
            raise DiskError("no log directory is left")
        return min(online, key=lambda directory: len(directory.logs))

    def _host(self, log: PartitionLog, high_watermark: int, settings: TopicSettings) -> Partition:
        log.producers.verify_transactions = True
        partition = Partition(log, self._broker.node_id, high_watermark, batch_rules(settings))
        self._broker.replicas.host(partition)
        return partition

    def _apply_configs(self, delta: ImageDelta) -> None:
        changed = {name for kind, name in delta.configs if kind == TOPIC_CONFIG}
        everything = any(kind == BROKER_CONFIG for kind, _ in delta.configs)
        if not changed and not everything:
            return
        broker = self._broker
        for partition in broker.replicas:
            topic = partition.name.topic
            if everything or topic in changed:
                settings = topic_settings(broker.image, broker.config, topic)
                partition.log.config = log_config(settings, broker.config)
                partition.rules = batch_rules(settings)

    # -- chores --------------------------------------------------------------------------------

    def delete_expired(self, now: Now) -> None:
        """Apply retention to every log."""
        for partition in self._broker.replicas:
            for removed in partition.delete_expired(now):
                self._broker.announce(
                    SegmentDeleted(
                        partition=partition.name,
                        base_offset=removed.base_offset,
                        start_offset=partition.log.start_offset,
                        size_bytes=removed.size_bytes,
                        cause=removed.cause,
                    )
                )

    def checkpoint_high_watermarks(self) -> None:
        for directory in self._broker.directories:
            directory.write_high_watermarks(self._high_watermarks(directory))

    def checkpoint_everything(self) -> None:
        for directory in self._broker.directories:
            directory.write_checkpoints(self._high_watermarks(directory))

    def _high_watermarks(self, directory: LogDirectory) -> Mapping[TopicPartition, int]:
        marks = {}
        for name in directory.logs:
            hosted = self._broker.replicas.get(name)
            if hosted is not None:
                marks[name] = hosted.high_watermark.offset
        return marks

    def sweep(self, now: Now) -> None:
        """Remove files whose time has come."""
        for directory in self._broker.directories:
            if directory.offline_reason is None:
                directory.sweep(now)

    def flush_due(self, now: Now) -> None:
        """Sync what has rolled, and what `flush.ms` wants synced, away from the loop."""
        for partition in self._broker.replicas:
            if partition.log.needs_flush(now):
                self.flush(partition.log)

    def flush(self, log: PartitionLog) -> None:
        job = log.flush_job()
        if job is None:
            return

        def finished(now: Now, error: str | None) -> None:
            if error is None:
                log.flushed(job)
            else:
                log.flush_failed(job, error)

        self._broker.jobs.run(job.run, finished)

    def offline_directories(self) -> tuple[UUID, ...]:
        """Directories that have failed, for the controller to know."""
        return tuple(
            directory.identity.directory_id
            for directory in self._broker.directories
            if directory.offline_reason is not None
        )

    def check_directories(self) -> None:
        """Announce a directory that failed; stop when it was the last one."""
        for directory in self._broker.directories:
            reason = directory.offline_reason
            if reason is not None and directory.path not in self._announced_offline:
                self._announced_offline.add(directory.path)
                self._broker.announce(LogDirectoryOffline(directory=directory.path, cause=reason))
        if self._announced_offline and len(self._announced_offline) == len(
            self._broker.directories
        ):
            raise DiskError(f"no log directory is left: {sorted(self._announced_offline)}")

    def close(self, broker_epoch: int) -> None:
        """Close every log and mark the stop as clean."""
        for directory in self._broker.directories:
            directory.close(broker_epoch, self._high_watermarks(directory))
            if directory.offline_reason is not None:
                raise DiskError(directory.offline_reason)
