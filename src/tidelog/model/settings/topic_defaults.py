"""Broker settings of the log: directories, and the cluster's defaults for topic settings."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    MAX_LONG,
    ConfigType,
    Limit,
    Scope,
    Setting,
    Settings,
    at_least,
    between,
    each_of,
    one_of,
)
from tidelog.model.settings.topic import (
    CLEANUP_POLICIES,
    CODECS,
    GZIP_LEVELS,
    MIN_SEGMENT_BYTES,
    TIMESTAMP_TYPES,
)

_UNLIMITED_OR_POSITIVE = Limit("-1 for no limit, or at least 1", lambda v: v == -1 or v >= 1)


class TopicDefaults(Settings):
    """What a topic gets for each key its own configuration does not name."""

    compression_gzip_level = Setting(
        ConfigType.INT,
        -1,
        "Default of the topics' compression.gzip.level.",
        GZIP_LEVELS,
        scope=Scope.CLUSTER_WIDE,
    )
    compression_lz4_level = Setting(
        ConfigType.INT,
        9,
        "Default of the topics' compression.lz4.level.",
        between(1, 17),
        scope=Scope.CLUSTER_WIDE,
    )
    compression_type = Setting(
        ConfigType.STRING,
        "producer",
        "Default of the topics' compression.type.",
        one_of(*CODECS),
        scope=Scope.CLUSTER_WIDE,
    )
    compression_zstd_level = Setting(
        ConfigType.INT,
        3,
        "Default of the topics' compression.zstd.level.",
        between(-131072, 22),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_delete_retention_ms = Setting(
        ConfigType.LONG,
        86_400_000,
        "Default of the topics' delete.retention.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_max_compaction_lag_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Default of the topics' max.compaction.lag.ms.",
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_min_cleanable_ratio = Setting(
        ConfigType.DOUBLE,
        0.5,
        "Default of the topics' min.cleanable.dirty.ratio.",
        between(0, 1),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_min_compaction_lag_ms = Setting(
        ConfigType.LONG,
        0,
        "Default of the topics' min.compaction.lag.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleanup_policy = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("delete",),
        "Default of the topics' cleanup.policy.",
        each_of(*CLEANUP_POLICIES),
        scope=Scope.CLUSTER_WIDE,
    )
    log_flush_interval_messages = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Default of the topics' flush.messages.",
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
    )
    log_flush_interval_ms = Setting[int | None](
        ConfigType.LONG,
        None,
        "Default of the topics' flush.ms; unset, it is log.flush.scheduler.interval.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_index_interval_bytes = Setting(
        ConfigType.INT,
        4096,
        "Default of the topics' index.interval.bytes.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_index_size_max_bytes = Setting(
        ConfigType.INT,
        10 << 20,
        "Default of the topics' segment.index.bytes.",
        at_least(4),
        scope=Scope.CLUSTER_WIDE,
    )
    log_message_timestamp_after_max_ms = Setting(
        ConfigType.LONG,
        3_600_000,
        "Default of the topics' message.timestamp.after.max.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_message_timestamp_before_max_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Default of the topics' message.timestamp.before.max.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_message_timestamp_type = Setting(
        ConfigType.STRING,
        "CreateTime",
        "Default of the topics' message.timestamp.type.",
        one_of(*TIMESTAMP_TYPES),
        scope=Scope.CLUSTER_WIDE,
    )
    log_retention_bytes = Setting(
        ConfigType.LONG,
        -1,
        "Default of the topics' retention.bytes.",
        scope=Scope.CLUSTER_WIDE,
    )
    log_retention_hours = Setting(
        ConfigType.INT,
        168,
        "Default of the topics' retention.ms in hours, used when neither minutes nor "
        "milliseconds are set.",
        _UNLIMITED_OR_POSITIVE,
    )
    log_retention_minutes = Setting[int | None](
        ConfigType.INT,
        None,
        "Default of the topics' retention.ms in minutes, used when milliseconds are not set.",
        _UNLIMITED_OR_POSITIVE,
    )
    log_retention_ms = Setting[int | None](
        ConfigType.LONG,
        None,
        "Default of the topics' retention.ms; unset, minutes and then hours count.",
        _UNLIMITED_OR_POSITIVE,
        scope=Scope.CLUSTER_WIDE,
    )
    log_roll_hours = Setting(
        ConfigType.INT,
        168,
        "Default of the topics' segment.ms in hours, used when milliseconds are not set.",
        at_least(1),
    )
    log_roll_jitter_hours = Setting(
        ConfigType.INT,
        0,
        "Default of the topics' segment.jitter.ms in hours, used when milliseconds are not set.",
        at_least(0),
    )
    log_roll_jitter_ms = Setting[int | None](
        ConfigType.LONG,
        None,
        "Default of the topics' segment.jitter.ms; unset, hours count.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_roll_ms = Setting[int | None](
        ConfigType.LONG,
        None,
        "Default of the topics' segment.ms; unset, hours count.",
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
    )
    log_segment_bytes = Setting(
        ConfigType.INT,
        1 << 30,
        "Default of the topics' segment.bytes.",
        at_least(MIN_SEGMENT_BYTES),
        scope=Scope.CLUSTER_WIDE,
    )
    log_segment_delete_delay_ms = Setting(
        ConfigType.LONG,
        60_000,
        "Default of the topics' file.delete.delay.ms.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    message_max_bytes = Setting(
        ConfigType.INT,
        1_048_588,
        "Default of the topics' max.message.bytes.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    min_insync_replicas = Setting(
        ConfigType.INT,
        1,
        "Default of the topics' min.insync.replicas.",
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
    )
    unclean_leader_election_enable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Default of the topics' unclean.leader.election.enable.",
        scope=Scope.CLUSTER_WIDE,
    )
