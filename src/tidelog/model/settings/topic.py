"""Topic settings: the keys of a topic's own configuration, and what each falls back to."""

from __future__ import annotations

from typing import Final

from tidelog.model.errors import ConfigError
from tidelog.model.settings.setting import (
    MAX_LONG,
    ConfigType,
    Limit,
    Setting,
    Settings,
    at_least,
    between,
    each_of,
    one_of,
)

CODECS: Final = ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")
TIMESTAMP_TYPES: Final = ("CreateTime", "LogAppendTime")
CLEANUP_POLICIES: Final = ("compact", "delete")
GZIP_LEVELS: Final = Limit("between 1 and 9, or -1", lambda level: level == -1 or 1 <= level <= 9)
MIN_SEGMENT_BYTES: Final = 1 << 20


def _names_replicas(pairs: tuple[str, ...]) -> bool:
    """Either `*`, or `partition:broker` pairs."""
    if pairs == ("*",):
        return True
    return all(
        len(parts := pair.split(":")) == 2
        and all(part.isascii() and part.isdigit() for part in parts)
        for pair in pairs
    )


THROTTLED: Final = Limit("* or a list of partition:broker pairs", _names_replicas)
ONLY_FALSE: Final = Limit("false, as there is no tiered storage", lambda value: value is False)


class TopicSettings(Settings):
    """The effective settings of one topic."""

    cleanup_policy = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("delete",),
        "How old records go: `delete` drops whole segments by age and size, `compact` keeps the "
        "newest record of each key, both together do both; empty keeps everything.",
        each_of(*CLEANUP_POLICIES),
        synonyms=("log.cleanup.policy",),
    )
    compression_gzip_level = Setting(
        ConfigType.INT,
        -1,
        "Level used when the broker itself compresses with gzip; -1 is the library's own choice.",
        GZIP_LEVELS,
        synonyms=("compression.gzip.level",),
    )
    compression_lz4_level = Setting(
        ConfigType.INT,
        9,
        "Level used when the broker itself compresses with lz4.",
        between(1, 17),
        synonyms=("compression.lz4.level",),
    )
    compression_type = Setting(
        ConfigType.STRING,
        "producer",
        "Codec batches are stored with; `producer` keeps whatever the producer chose.",
        one_of(*CODECS),
        synonyms=("compression.type",),
    )
    compression_zstd_level = Setting(
        ConfigType.INT,
        3,
        "Level used when the broker itself compresses with zstd.",
        between(-131072, 22),
        synonyms=("compression.zstd.level",),
    )
    delete_retention_ms = Setting(
        ConfigType.LONG,
        86_400_000,
        "How long a tombstone of a compacted topic stays readable.",
        at_least(0),
        synonyms=("log.cleaner.delete.retention.ms",),
    )
    file_delete_delay_ms = Setting(
        ConfigType.LONG,
        60_000,
        "How long a file marked as deleted stays on disk.",
        at_least(0),
        synonyms=("log.segment.delete.delay.ms",),
    )
    flush_messages = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Force the log to disk after this many records; 1 means after every batch.",
        at_least(1),
        synonyms=("log.flush.interval.messages",),
    )
    flush_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Force the log to disk when its oldest unflushed record has waited this long.",
        at_least(0),
        synonyms=("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    )
    follower_replication_throttled_replicas = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "Replicas whose fetching is throttled on the follower's side: `partition:broker` pairs, "
        "or `*` for all.",
        THROTTLED,
    )
    index_interval_bytes = Setting(
        ConfigType.INT,
        4096,
        "Bytes appended between two entries of the offset index.",
        at_least(0),
        synonyms=("log.index.interval.bytes",),
    )
    leader_replication_throttled_replicas = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "Replicas whose fetching is throttled on the leader's side: `partition:broker` pairs, "
        "or `*` for all.",
        THROTTLED,
    )
    local_retention_bytes = Setting(
        ConfigType.LONG,
        -2,
        "Known for compatibility: bytes kept locally under tiered storage; -2 follows "
        "retention.bytes.",
        at_least(-2),
        synonyms=("log.local.retention.bytes",),
    )
    local_retention_ms = Setting(
        ConfigType.LONG,
        -2,
        "Known for compatibility: time kept locally under tiered storage; -2 follows retention.ms.",
        at_least(-2),
        synonyms=("log.local.retention.ms",),
    )
    max_compaction_lag_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "A record of a compacted topic is looked at by the cleaner no later than this.",
        at_least(1),
        synonyms=("log.cleaner.max.compaction.lag.ms",),
    )
    max_message_bytes = Setting(
        ConfigType.INT,
        1_048_588,
        "Largest batch a producer may send, as stored.",
        at_least(0),
        synonyms=("message.max.bytes",),
    )
    message_timestamp_after_max_ms = Setting(
        ConfigType.LONG,
        3_600_000,
        "How far a record's timestamp may lie ahead of the broker's clock (CreateTime only).",
        at_least(0),
        synonyms=("log.message.timestamp.after.max.ms",),
    )
    message_timestamp_before_max_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "How far a record's timestamp may lie behind the broker's clock (CreateTime only).",
        at_least(0),
        synonyms=("log.message.timestamp.before.max.ms",),
    )
    message_timestamp_type = Setting(
        ConfigType.STRING,
        "CreateTime",
        "Whose clock stamps a record: the producer's (CreateTime) or the leader's (LogAppendTime).",
        one_of(*TIMESTAMP_TYPES),
        synonyms=("log.message.timestamp.type",),
    )
    min_cleanable_dirty_ratio = Setting(
        ConfigType.DOUBLE,
        0.5,
        "Share of uncleaned bytes from which a compacted log is worth cleaning.",
        between(0, 1),
        synonyms=("log.cleaner.min.cleanable.ratio",),
    )
    min_compaction_lag_ms = Setting(
        ConfigType.LONG,
        0,
        "A record of a compacted topic stays untouched by the cleaner at least this long.",
        at_least(0),
        synonyms=("log.cleaner.min.compaction.lag.ms",),
    )
    min_insync_replicas = Setting(
        ConfigType.INT,
        1,
        "In-sync replicas a partition needs for acks=all to be accepted and for the high "
        "watermark to rise.",
        at_least(1),
        synonyms=("min.insync.replicas",),
    )
    preallocate = Setting(
        ConfigType.BOOLEAN,
        False,
        "Whether a new segment's file gets its full size at once.",
        synonyms=("log.preallocate",),
    )
    remote_log_copy_disable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Known for compatibility; there is no tiered storage.",
        ONLY_FALSE,
    )
    remote_log_delete_on_disable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Known for compatibility; there is no tiered storage.",
        ONLY_FALSE,
    )
    remote_storage_enable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Known for compatibility; there is no tiered storage.",
        ONLY_FALSE,
    )
    retention_bytes = Setting(
        ConfigType.LONG,
        -1,
        "Bytes a partition may hold before its oldest segments are deleted; -1 is no limit.",
        synonyms=("log.retention.bytes",),
    )
    retention_ms = Setting(
        ConfigType.LONG,
        604_800_000,
        "How long a record is kept at least; -1 is for ever.",
        at_least(-1),
        synonyms=("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    )
    segment_bytes = Setting(
        ConfigType.INT,
        1 << 30,
        "Size at which a segment is closed and a new one begun.",
        at_least(MIN_SEGMENT_BYTES),
        synonyms=("log.segment.bytes",),
    )
    segment_index_bytes = Setting(
        ConfigType.INT,
        10 << 20,
        "Size at which an index is full, which closes its segment.",
        at_least(4),
        synonyms=("log.index.size.max.bytes",),
    )
    segment_jitter_ms = Setting(
        ConfigType.LONG,
        0,
        "Up to this much is taken off segment.ms at random, so that segments do not all close "
        "at once.",
        at_least(0),
        synonyms=("log.roll.jitter.ms", "log.roll.jitter.hours"),
    )
    segment_ms = Setting(
        ConfigType.LONG,
        604_800_000,
        "Age at which a segment is closed even if it is not full.",
        at_least(1),
        synonyms=("log.roll.ms", "log.roll.hours"),
    )
    unclean_leader_election_enable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Whether a replica outside the in-sync set may lead as a last resort, losing records.",
        synonyms=("unclean.leader.election.enable",),
    )

    def check_together(self) -> None:
        """Refuse values that are fine alone and not together."""
        if self.min_compaction_lag_ms > self.max_compaction_lag_ms:
            raise ConfigError(
                f"min.compaction.lag.ms {self.min_compaction_lag_ms} must not exceed "
                f"max.compaction.lag.ms {self.max_compaction_lag_ms}"
            )
