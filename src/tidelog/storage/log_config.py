"""The settings of one log, by their topic configuration names; the defaults are Kafka's."""

from __future__ import annotations

from typing import Final, NamedTuple

FOREVER: Final = 2**63 - 1
_DAY_MS: Final = 86_400_000


class LogConfig(NamedTuple):
    """What a log must know of its topic's configuration; replaced as a whole at run time."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * _DAY_MS
    segment_jitter_ms: int = 0
    index_bytes: int = 10_485_760
    index_interval_bytes: int = 4096
    retention_ms: int = 7 * _DAY_MS
    retention_bytes: int = -1
    cleanup_delete: bool = True
    cleanup_compact: bool = False
    flush_messages: int = FOREVER
    flush_ms: int = FOREVER
    file_delete_delay_ms: int = 60_000
    producer_expiry_ms: int = _DAY_MS
    max_message_bytes: int = 1_048_588
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = FOREVER
    delete_retention_ms: int = _DAY_MS
    verify_transactions: bool = False
