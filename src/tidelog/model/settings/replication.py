"""Broker settings of topics and their replication: creation, fetching, in-sync sets, leaders."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    ConfigType,
    Limit,
    Setting,
    Settings,
    at_least,
    between,
)

RACK_AWARE_SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


class ReplicationSettings(Settings):
    """How partitions are placed, copied and led."""

    auto_create_topics_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether asking for the metadata of an unknown topic creates it.",
    )
    auto_leader_rebalance_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether leadership is moved back to preferred replicas from time to time.",
    )
    broker_disconnect_grace_ms = Setting(
        ConfigType.INT,
        200,
        "A broker whose heartbeat connection closes is fenced after this long, unless it comes "
        "back, and voters whose leader hung up elect another one within it; 0 waits for "
        "broker.session.timeout.ms and controller.quorum.fetch.timeout.ms.",
        at_least(0),
    )
    broker_heartbeat_interval_ms = Setting(
        ConfigType.INT,
        2000,
        "How often a broker tells the controller that it lives.",
        at_least(1),
    )
    broker_reconnect_grace_ms = Setting(
        ConfigType.INT,
        10_000,
        "How long clients may take to try a broker again that was gone: so long after its return "
        "leadership does not go back to it on its own, and elections prefer other replicas. "
        "librdkafka waits up to 10 s (its reconnect.backoff.max.ms).",
        at_least(0),
    )
    broker_session_timeout_ms = Setting(
        ConfigType.INT,
        9000,
        "A broker the controller has not heard of for this long is fenced.",
        at_least(1),
    )
    controlled_shutdown_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether a broker hands over its leaderships before it stops.",
    )
    default_replication_factor = Setting(
        ConfigType.INT,
        1,
        "Replicas of a topic created without a number of its own.",
        at_least(1),
    )
    delete_topic_enable = Setting(
        ConfigType.BOOLEAN,
        True,
        "Whether topics may be deleted.",
    )
    fetch_max_bytes = Setting(
        ConfigType.INT,
        57_671_680,
        "Most bytes one fetch answer carries, whatever the client asks for.",
        at_least(1024),
    )
    initial_broker_registration_timeout_ms = Setting(
        ConfigType.INT,
        60_000,
        "A broker that is not registered this long after its start gives up.",
        at_least(1),
    )
    leader_imbalance_check_interval_seconds = Setting(
        ConfigType.LONG,
        300,
        "How often the balance of leaders is looked at.",
        at_least(1),
    )
    leader_imbalance_per_broker_percentage = Setting(
        ConfigType.INT,
        10,
        "Leadership moves back to a broker once more than this share of the partitions that "
        "prefer it is led elsewhere.",
        between(0, 100),
    )
    max_incremental_fetch_session_cache_slots = Setting(
        ConfigType.INT,
        1000,
        "Fetch sessions remembered at a time.",
        at_least(0),
    )
    max_request_partition_size_limit = Setting(
        ConfigType.INT,
        2000,
        "Most partitions one answer to DescribeTopicPartitions names.",
        at_least(1),
    )
    num_partitions = Setting(
        ConfigType.INT,
        1,
        "Partitions of a topic created without a number of its own.",
        at_least(1),
    )
    replica_fetch_backoff_ms = Setting(
        ConfigType.INT,
        1000,
        "Pause of a follower after a failed fetch.",
        at_least(0),
    )
    replica_fetch_max_bytes = Setting(
        ConfigType.INT,
        1 << 20,
        "Bytes a follower asks for per partition; a larger first batch still comes whole.",
        at_least(0),
    )
    replica_fetch_min_bytes = Setting(
        ConfigType.INT,
        1,
        "Bytes a follower waits for in one answer.",
        at_least(0),
    )
    replica_fetch_response_max_bytes = Setting(
        ConfigType.INT,
        10 << 20,
        "Bytes a follower asks for in one answer.",
        at_least(0),
    )
    replica_fetch_wait_max_ms = Setting(
        ConfigType.INT,
        500,
        "How long a leader may hold a follower's fetch that has nothing new; must not exceed "
        "replica.lag.time.max.ms.",
        at_least(0),
    )
    replica_high_watermark_checkpoint_interval_ms = Setting(
        ConfigType.LONG,
        5000,
        "How often the high watermarks are written down.",
        at_least(1),
    )
    replica_lag_time_max_ms = Setting(
        ConfigType.LONG,
        30_000,
        "A follower that was not fully caught up for this long leaves the in-sync replicas.",
        at_least(1),
    )
    replica_selector_class = Setting[str | None](
        ConfigType.STRING,
        None,
        "How a replica is picked for a consumer that names its rack; unset, the leader serves. "
        "The rack-aware one prefers the consumer's own rack.",
        Limit(
            f"RackAwareReplicaSelector or {RACK_AWARE_SELECTOR}",
            lambda name: name in (RACK_AWARE_SELECTOR, "RackAwareReplicaSelector"),
        ),
    )
    replica_socket_receive_buffer_bytes = Setting(
        ConfigType.INT,
        65_536,
        "Receive buffer of a follower's connection to its leader.",
        at_least(-1),
    )
    replica_socket_timeout_ms = Setting(
        ConfigType.INT,
        30_000,
        "How long a follower waits for a leader's answer.",
        at_least(1),
    )
    unclean_leader_election_interval_ms = Setting(
        ConfigType.LONG,
        300_000,
        "How often partitions without a leader are looked at for an unclean election.",
        at_least(1),
    )
