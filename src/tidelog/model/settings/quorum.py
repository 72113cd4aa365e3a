"""Settings of the controllers' quorum and of the metadata log it keeps."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    ConfigType,
    Setting,
    Settings,
    at_least,
)


class QuorumSettings(Settings):
    """How controllers elect a leader and keep the cluster's metadata."""

    controller_listener_names = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "Names of the listeners the controllers use. Must be given.",
    )
    controller_quorum_auto_join_enable = Setting(
        ConfigType.BOOLEAN,
        False,
        "Whether a controller asks to become a voter when it starts.",
    )
    controller_quorum_bootstrap_servers = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "Addresses at which to find a quorum whose voters are kept in its own log.",
    )
    controller_quorum_election_backoff_max_ms = Setting(
        ConfigType.INT,
        1000,
        "Longest pause after a lost election.",
        at_least(0),
    )
    controller_quorum_election_timeout_ms = Setting(
        ConfigType.INT,
        1000,
        "How long a voter waits for votes, or for a leader, before it stands itself.",
        at_least(0),
    )
    controller_quorum_fetch_max_bytes = Setting(
        ConfigType.INT,
        1 << 20,
        "Bytes asked for in one fetch of the metadata log.",
        at_least(1),
    )
    controller_quorum_fetch_snapshot_max_bytes = Setting(
        ConfigType.INT,
        1 << 20,
        "Bytes asked for in one fetch of a metadata snapshot.",
        at_least(1),
    )
    controller_quorum_fetch_timeout_ms = Setting(
        ConfigType.INT,
        2000,
        "A voter that could not fetch from the leader for this long stands for election.",
        at_least(0),
    )
    controller_quorum_request_timeout_ms = Setting(
        ConfigType.INT,
        2000,
        "How long a request within the quorum waits for its answer.",
        at_least(0),
    )
    controller_quorum_retry_backoff_ms = Setting(
        ConfigType.INT,
        20,
        "Pause before a request within the quorum is sent again.",
        at_least(0),
    )
    controller_quorum_voters = Setting[tuple[str, ...]](
        ConfigType.LIST,
        (),
        "The voters of a fixed quorum, as id@host:port.",
    )
    metadata_log_dir = Setting[str | None](
        ConfigType.STRING,
        None,
        "The directory of the metadata log; unset, the first of log.dirs.",
    )
    metadata_log_max_record_bytes_between_snapshots = Setting(
        ConfigType.LONG,
        20 << 20,
        "Bytes of metadata records after which a new snapshot is written.",
        at_least(1),
    )
    metadata_log_max_snapshot_interval_ms = Setting(
        ConfigType.LONG,
        3_600_000,
        "Time after which a new snapshot is written; 0 is never.",
        at_least(0),
    )
    metadata_log_segment_bytes = Setting(
        ConfigType.INT,
        1 << 30,
        "Size at which a segment of the metadata log is closed.",
        at_least(8 << 20),
    )
    metadata_log_segment_ms = Setting(
        ConfigType.LONG,
        604_800_000,
        "Age at which a segment of the metadata log is closed.",
        at_least(1),
    )
    metadata_max_idle_interval_ms = Setting(
        ConfigType.INT,
        500,
        "An idle controller writes an empty record this often; 0 is never.",
        at_least(0),
    )
    metadata_max_retention_bytes = Setting(
        ConfigType.LONG,
        100 << 20,
        "Size of metadata log and snapshots above which the oldest of them go.",
    )
    metadata_max_retention_ms = Setting(
        ConfigType.LONG,
        604_800_000,
        "Age at which metadata snapshots and the log below them go.",
    )
