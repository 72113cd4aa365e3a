"""Broker settings of storage: where logs lie, how they are flushed, checked, cleaned, recovered."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    MAX_LONG,
    ConfigType,
    Limit,
    Scope,
    Setting,
    Settings,
    at_least,
)


class StorageSettings(Settings):
    """How this node keeps its logs."""

    journal_max_bytes = Setting(
        ConfigType.LONG,
        16_777_216,
        "Size at which `events.jsonl` and `node.log` each become `.1`, in place of the one before.",
        at_least(4096),
    )
    log_cleaner_backoff_ms = Setting(
        ConfigType.LONG,
        15_000,
        "Pause of the cleaner when there is nothing to clean.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_dedupe_buffer_size = Setting(
        ConfigType.LONG,
        134_217_728,
        "Memory for the cleaner's map from keys to newest offsets.",
        at_least(1 << 20),
        scope=Scope.CLUSTER_WIDE,
    )
    log_cleaner_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether compacted topics are cleaned.",
    )
    log_cleaner_io_buffer_load_factor = Setting(
        ConfigType.DOUBLE,
        0.9,
        "How full the cleaner's map may get.",
        Limit("above 0 and at most 1", lambda factor: 0 < factor <= 1),
        scope=Scope.CLUSTER_WIDE,
    )
    log_dir = Setting[str | None](
        ConfigType.STRING,
        None,
        "The directory that holds the logs; used when log.dirs is not set. One of the two must "
        "be given.",
    )
    log_dirs = Setting[tuple[str, ...] | None](
        ConfigType.LIST,
        None,
        "The directories that hold the logs; falls back to log.dir.",
    )
    log_flush_offset_checkpoint_interval_ms = Setting(
        ConfigType.INT,
        60_000,
        "How often the recovery points are written down.",
        at_least(0),
    )
    log_flush_scheduler_interval_ms = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "How often logs are looked over for data that is due to be forced to disk.",
        at_least(1),
    )
    log_initial_task_delay_ms = Setting(
        ConfigType.LONG,
        30_000,
        "Pause between start and the first round of background work on the logs.",
        at_least(0),
    )
    log_retention_check_interval_ms = Setting(
        ConfigType.LONG,
        300_000,
        "How often logs are looked over for segments that may be deleted.",
        at_least(1),
    )
    producer_id_expiration_check_interval_ms = Setting(
        ConfigType.INT,
        600_000,
        "How often expired producers are looked for.",
        at_least(1),
    )
    producer_id_expiration_ms = Setting(
        ConfigType.INT,
        86_400_000,
        "A producer that wrote nothing for this long is forgotten, unless its transaction is open.",
        at_least(1),
        scope=Scope.CLUSTER_WIDE,
    )
