"""The topics in which coordinators keep their state, and which partition keeps what.

Invariant  Every broker and every client finds the same partition for a key: the hash is Java's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from tidelog.model.config import NodeConfig
from tidelog.records.compression import CompressionType

OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
_INT32: Final = 1 << 32
_INT32_MIN: Final = -(1 << 31)


class InternalTopic(NamedTuple):
    """How an internal topic is created, and how coordinators write to it."""

    name: str
    partitions: int
    replication_factor: int
    configs: Mapping[str, str]
    codec: CompressionType
    write_timeout_ms: int
    """How long an answer waits for the in-sync replicas."""
    load_bytes: int
    """Most bytes that are read at a time while a coordinator loads."""


def offsets_topic(config: NodeConfig) -> InternalTopic:
    """Groups and their committed offsets."""
    return InternalTopic(
        OFFSETS_TOPIC,
        config.offsets_topic_num_partitions,
        config.offsets_topic_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        },
        CompressionType(config.offsets_topic_compression_codec),
        config.offsets_commit_timeout_ms,
        config.offsets_load_buffer_size,
    )


def transactions_topic(config: NodeConfig) -> InternalTopic:
    """Transactional ids and the state of their transactions."""
    return InternalTopic(
        TRANSACTIONS_TOPIC,
        config.transaction_state_log_num_partitions,
        config.transaction_state_log_replication_factor,
        {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(config.transaction_state_log_min_isr),
            "segment.bytes": str(config.transaction_state_log_segment_bytes),
            "unclean.leader.election.enable": "false",
        },
        CompressionType.NONE,
        config.request_timeout_ms,
        config.transaction_state_log_load_buffer_size,
    )


def internal_topic(name: str, config: NodeConfig) -> InternalTopic | None:
    """How the topic of that name is created; None for a topic that belongs to no coordinator."""
    if name == OFFSETS_TOPIC:
        return offsets_topic(config)
    if name == TRANSACTIONS_TOPIC:
        return transactions_topic(config)
    return None


def partition_of(key: str, partitions: int) -> int:
    """Which partition keeps a group or a transactional id."""
    hashed = java_hash(key)
    return (0 if hashed == _INT32_MIN else abs(hashed)) % partitions


def java_hash(text: str) -> int:
    """Java's hash of a string: over its UTF-16 units, in 32 bits with a sign."""
    units = text.encode("utf-16-be", "surrogatepass")
    hashed = 0
    for at in range(0, len(units), 2):
        hashed = (31 * hashed + (units[at] << 8 | units[at + 1])) % _INT32
    return hashed - _INT32 if hashed >= _INT32 >> 1 else hashed
