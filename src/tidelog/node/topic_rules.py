"""From a topic's settings to what its log and its batches must obey."""

from __future__ import annotations

from tidelog.controller.image import BROKER_CONFIG, TOPIC_CONFIG, ClusterImage
from tidelog.model.config import NodeConfig
from tidelog.model.settings.effective import effective_topic_settings
from tidelog.model.settings.topic import TopicSettings
from tidelog.records.compression import Codec
from tidelog.records.validation import BatchRules
from tidelog.storage.log_config import LogConfig

CODECS = {
    "producer": None,
    "uncompressed": Codec.NONE,
    "gzip": Codec.GZIP,
    "snappy": Codec.SNAPPY,
    "lz4": Codec.LZ4,
    "zstd": Codec.ZSTD,
}


def topic_settings(image: ClusterImage, node: NodeConfig, topic: str) -> TopicSettings:
    """What is in force for a topic: its own settings, then dynamic, static and default ones."""
    return effective_topic_settings(
        image.config(TOPIC_CONFIG, topic),
        image.config(BROKER_CONFIG, ""),
        image.config(BROKER_CONFIG, str(node.node_id)),
        node,
    )


def batch_rules(settings: TopicSettings) -> BatchRules:
    """What a produced batch must satisfy."""
    codec = CODECS[settings.compression_type]
    levels = {
        Codec.GZIP: settings.compression_gzip_level,
        Codec.LZ4: settings.compression_lz4_level,
        Codec.ZSTD: settings.compression_zstd_level,
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
        segment_ms=settings.segment_ms,
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
    )
