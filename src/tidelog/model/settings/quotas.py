"""Broker settings of quotas: the windows in which rates are measured, and rates of replication."""

from __future__ import annotations

from tidelog.model.settings.setting import ConfigType, Setting, Settings, at_least


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
