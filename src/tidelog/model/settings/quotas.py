"""Broker settings of quotas: the windows in which rates are measured, and rates of replication."""

from __future__ import annotations

from tidelog.model.settings.setting import (
    MAX_LONG,
    ConfigType,
    Scope,
    Setting,
    Settings,
    at_least,
)


class QuotaSettings(Settings):
    """How rates are measured."""

    controller_quota_window_num = Setting(
        ConfigType.INT,
        11,
        "Samples of changes to topics that a client may save up before it is throttled.",
        at_least(1),
    )
    controller_quota_window_size_seconds = Setting(
        ConfigType.INT,
        1,
        "The time span of each of these samples.",
        at_least(1),
    )
    follower_replication_throttled_rate = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Bytes per second that this broker fetches for its replicas that topics name in "
        "follower.replication.throttled.replicas and that are not in sync.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        hidden=True,
    )
    leader_replication_throttled_rate = Setting(
        ConfigType.LONG,
        MAX_LONG,
        "Bytes per second that this broker sends to replicas that topics name in "
        "leader.replication.throttled.replicas and that are not in sync.",
        at_least(0),
        scope=Scope.CLUSTER_WIDE,
        hidden=True,
    )
    quota_window_num = Setting(
        ConfigType.INT,
        11,
        "Samples kept to measure what clients do against their quotas.",
        at_least(1),
    )
    quota_window_size_seconds = Setting(
        ConfigType.INT,
        1,
        "The time span of each of these samples.",
        at_least(1),
    )
    replication_quota_window_num = Setting(
        ConfigType.INT,
        11,
        "Samples kept to measure how fast throttled replicas are copied.",
        at_least(1),
    )
    replication_quota_window_size_seconds = Setting(
        ConfigType.INT,
        1,
        "The time span of each of these samples.",
        at_least(1),
    )
