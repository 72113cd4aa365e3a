"""From a topic's settings to what its logs and its batches must obey.

Invariant  What is remembered of a topic is what its settings say: a change of settings, and a
           deletion, must be told with `forget`.
"""

from __future__ import annotations

from typing import NamedTuple

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG
from tidelog.model.config import NodeConfig
from tidelog.model.settings.effective import effective_topic_settings
from tidelog.model.settings.topic import TopicSettings
from tidelog.node.metadata.cluster_view import ClusterView
from tidelog.records.compression import CompressionType
from tidelog.records.validation import BatchRules
from tidelog.storage.log_config import LogConfig

CODECS = {
    "producer": None,
    "uncompressed": CompressionType.NONE,
    "gzip": CompressionType.GZIP,
    "snappy": CompressionType.SNAPPY,
    "lz4": CompressionType.LZ4,
    "zstd": CompressionType.ZSTD,
}


class Rules(NamedTuple):
    """The rules of one topic."""

    log: LogConfig
    batches: BatchRules
    min_in_sync: int


class TopicRules:
    """The rules of every topic this node has a replica of, worked out once for all of them."""

    def __init__(self, cluster: ClusterView) -> None:
        self._cluster = cluster
        self._known: dict[str, Rules] = {}

    def of(self, topic: str) -> Rules:
        """From its own settings, then dynamic, static and default ones."""
        rules = self._known.get(topic)
        if rules is None:
            image, node = self._cluster.image, self._cluster.config
            settings = effective_topic_settings(
                image.config(TOPIC_CONFIG, topic),
                image.config(BROKER_CONFIG, ""),
                image.config(BROKER_CONFIG, str(node.node_id)),
                node,
            )
            rules = Rules(
                log_config(settings, node),
                batch_rules(settings),
                settings.min_insync_replicas,
            )
            self._known[topic] = rules
        return rules

    def forget(self, topic: str) -> None:
        """Its settings changed, or it is gone."""
        self._known.pop(topic, None)

    def forget_all(self) -> None:
        """Settings of brokers changed, on which every topic falls back."""
        self._known.clear()


def batch_rules(settings: TopicSettings) -> BatchRules:
    """What a produced batch must satisfy."""
    codec = CODECS[settings.compression_type]
    levels = {
        CompressionType.GZIP: settings.compression_gzip_level,
        CompressionType.LZ4: settings.compression_lz4_level,
        CompressionType.ZSTD: settings.compression_zstd_level,
    }
    return BatchRules(
        max_message_bytes=settings.max_message_bytes,
        compacted="compact" in settings.cleanup_policy,
        log_append_time=settings.message_timestamp_type == "LogAppendTime",
        before_max_ms=settings.message_timestamp_before_max_ms,
        after_max_ms=settings.message_timestamp_after_max_ms,
        codec=codec,
        level=None if codec is None else levels.get(codec),
        segment_bytes=settings.segment_bytes,
    )


def log_config(settings: TopicSettings, node: NodeConfig) -> LogConfig:
    """How a log rolls, keeps and flushes."""
    return LogConfig(
        segment_bytes=settings.segment_bytes,
        segment_ms=_segment_ms(settings),
        segment_jitter_ms=settings.segment_jitter_ms,
        index_bytes=settings.segment_index_bytes,
        index_interval_bytes=settings.index_interval_bytes,
        retention_ms=settings.retention_ms,
        retention_bytes=settings.retention_bytes,
        cleanup_delete="delete" in settings.cleanup_policy,
        cleanup_compact="compact" in settings.cleanup_policy,
        flush_messages=settings.flush_messages,
        flush_ms=settings.flush_ms,
        file_delete_delay_ms=settings.file_delete_delay_ms,
        producer_expiry_ms=node.producer_id_expiration_ms,
        max_message_bytes=settings.max_message_bytes,
        min_cleanable_dirty_ratio=settings.min_cleanable_dirty_ratio,
        min_compaction_lag_ms=settings.min_compaction_lag_ms,
        max_compaction_lag_ms=settings.max_compaction_lag_ms,
        delete_retention_ms=settings.delete_retention_ms,
        verify_transactions=node.transaction_partition_verification_enable,
    )


def _segment_ms(settings: TopicSettings) -> int:
    """A record must leave the active segment in time for the cleaner to look at it."""
    if "compact" not in settings.cleanup_policy or settings.max_compaction_lag_ms <= 0:
        return settings.segment_ms
    return min(settings.segment_ms, settings.max_compaction_lag_ms)
