"""Settings of the coordinators: consumer groups, committed offsets, transactions."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    MAX_INT,
    ConfigType,
    Limit,
    Scope,
    Setting,
    Settings,
    at_least,
    between,
    each_of,
)

_MIGRATIONS = ("bidirectional", "upgrade", "downgrade", "disabled")


class GroupSettings(Settings):
    """Consumer groups and their offsets."""

    group_consumer_assignment_interval_ms = Setting(
        ConfigType.INT,
        1000,
        "A group of the consumer protocol gets a new target assignment at most this often.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
    )
    group_consumer_assignors = Setting[tuple[str, ...]](
        ConfigType.LIST,
        ("uniform", "range"),
        "Server-side assignors of the consumer protocol; the first is the default.",
        each_of("uniform", "range"),
    )
    group_consumer_heartbeat_interval_ms = Setting(
        ConfigType.INT,
        5000,
        "How often members of the consumer protocol are told to report.",
        at_least(1),
    )
    group_consumer_max_assignment_interval_ms = Setting(
        ConfigType.INT,
        15_000,
        "Longest assignment interval a group may ask for.",
        at_least(0),
    )
    group_consumer_max_heartbeat_interval_ms = Setting(
        ConfigType.INT,
        15_000,
        "Longest heartbeat interval a group may ask for.",
        at_least(1),
    )
    group_consumer_max_session_timeout_ms = Setting(
        ConfigType.INT,
        60_000,
        "Longest session a group of the consumer protocol may ask for.",
        at_least(1),
    )
    group_consumer_max_size = Setting(
        ConfigType.INT,
        MAX_INT,
        "Most members of one group of the consumer protocol.",
        at_least(1),
    )
    group_consumer_migration_policy = Setting(
        ConfigType.STRING,
        "bidirectional",
        "Which way a group may change between the classic and the consumer protocol.",
        Limit(f"one of {', '.join(_MIGRATIONS)}", lambda value: value.lower() in _MIGRATIONS),
    )
    group_consumer_min_assignment_interval_ms = Setting(
        ConfigType.INT,
        0,
        "Shortest assignment interval a group may ask for.",
        at_least(0),
    )
    group_consumer_min_heartbeat_interval_ms = Setting(
        ConfigType.INT,
        5000,
        "Shortest heartbeat interval a group may ask for.",
        at_least(1),
    )
    group_consumer_min_session_timeout_ms = Setting(
        ConfigType.INT,
        45_000,
        "Shortest session a group of the consumer protocol may ask for.",
        at_least(1),
    )
    group_consumer_session_timeout_ms = Setting(
        ConfigType.INT,
        45_000,
        "A member of the consumer protocol that is silent for this long is removed.",
        at_least(1),
    )
    group_initial_rebalance_delay_ms = Setting(
        ConfigType.INT,
        3000,
        "How long the first member of an empty classic group waits for others.",
        at_least(0),
    )
    group_max_session_timeout_ms = Setting(
        ConfigType.INT,
        1_800_000,
        "Longest session a member of a classic group may ask for.",
        at_least(1),
    )
    group_max_size = Setting(
        ConfigType.INT,
        MAX_INT,
        "Most members of one classic group.",
        at_least(1),
    )
    group_min_session_timeout_ms = Setting(
        ConfigType.INT,
        6000,
        "Shortest session a member of a classic group may ask for.",
        at_least(1),
    )
    offset_metadata_max_bytes = Setting(
        ConfigType.INT,
        4096,
        "Most bytes of text a consumer may store beside an offset.",
        at_least(0),
    )
    offsets_commit_timeout_ms = Setting(
        ConfigType.INT,
        5000,
        "How long a commit waits for the in-sync replicas of the offsets topic.",
        at_least(1),
    )
    offsets_load_buffer_size = Setting(
        ConfigType.INT,
        5 << 20,
        "Bytes read at a time while a coordinator loads its offsets.",
        at_least(1),
    )
    offsets_retention_check_interval_ms = Setting(
        ConfigType.LONG,
        600_000,
        "How often expired offsets are looked for.",
        at_least(1),
    )
    offsets_retention_minutes = Setting(
        ConfigType.INT,
        10_080,
        "Offsets of a group are kept this long after it became empty.",
        at_least(1),
    )
    offsets_topic_compression_codec = Setting(
        ConfigType.INT,
        0,
        "Codec of the offsets topic: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.",
        between(0, 4),
    )
    offsets_topic_num_partitions = Setting(
        ConfigType.INT,
        50,
        "Partitions of the offsets topic; must not change once it exists.",
        at_least(1),
    )
    offsets_topic_replication_factor = Setting(
        ConfigType.SHORT,
        3,
        "Replicas of the offsets topic; it is created once there are as many brokers.",
        at_least(1),
    )
    offsets_topic_segment_bytes = Setting(
        ConfigType.INT,
        104_857_600,
        "Segment size of the offsets topic; small ones keep loading fast.",
        at_least(1),
    )


class TransactionSettings(Settings):
    """Transactions and the producers behind them."""

    add_partitions_to_txn_retry_backoff_max_ms = Setting(
        ConfigType.INT,
        100,
        "How long a broker goes on trying to add a partition to a transaction that is still "
        "ending.",
        at_least(0),
    )
    add_partitions_to_txn_retry_backoff_ms = Setting(
        ConfigType.INT,
        20,
        "Pause between those tries.",
        at_least(1),
    )
    transaction_abort_timed_out_transaction_cleanup_interval_ms = Setting(
        ConfigType.INT,
        10_000,
        "How often transactions past their timeout are looked for.",
        at_least(1),
    )
    transaction_max_timeout_ms = Setting(
        ConfigType.INT,
        900_000,
        "Longest timeout a transactional producer may ask for.",
        at_least(1),
    )
    transaction_partition_verification_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether a leader asks the coordinator before it takes the first batch of a transaction.",
        scope=Scope.CLUSTER_WIDE,
    )
    transaction_remove_expired_transaction_cleanup_interval_ms = Setting(
        ConfigType.INT,
        3_600_000,
        "How often expired transactional ids are looked for.",
        at_least(1),
    )
    transaction_state_log_load_buffer_size = Setting(
        ConfigType.INT,
        5 << 20,
        "Bytes read at a time while a coordinator loads its transactions.",
        at_least(1),
    )
    transaction_state_log_min_isr = Setting(
        ConfigType.INT,
        2,
        "min.insync.replicas of the transaction topic.",
        at_least(1),
    )
    transaction_state_log_num_partitions = Setting(
        ConfigType.INT,
        50,
        "Partitions of the transaction topic; must not change once it exists.",
        at_least(1),
    )
    transaction_state_log_replication_factor = Setting(
        ConfigType.SHORT,
        3,
        "Replicas of the transaction topic; it is created once there are as many brokers.",
        at_least(1),
    )
    transaction_state_log_segment_bytes = Setting(
        ConfigType.INT,
        104_857_600,
        "Segment size of the transaction topic.",
        at_least(1),
    )
    transaction_two_phase_commit_enable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Whether producers may take part in a two-phase commit, with transactions that never time "
        "out.",
    )
    transactional_id_expiration_ms = Setting(
        ConfigType.INT,
        604_800_000,
        "A transactional id without a transaction for this long is forgotten.",
        at_least(1),
    )
